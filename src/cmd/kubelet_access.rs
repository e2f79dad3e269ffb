//! How a kubelet's own API is reached: the flags that every command has for it.

use std::path::PathBuf;

use clap::Args;

use super::Error;
use super::context::Context;
use crate::kubelet::{Credentials, DEFAULT_URL, KubeletApi, http};

/// The kubelet's own API.
#[derive(Debug, Default, Args)]
pub struct KubeletAccess {
    /// The kubelet's own API [default: `https://127.0.0.1:10250` where a credential is given]
    #[arg(long = "kubelet-url", value_name = "URL")]
    url: Option<String>,

    /// A file with a bearer token for it
    #[arg(long = "kubelet-token-file", value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// A client certificate for it
    #[arg(long = "kubelet-client-cert", value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,

    /// The key of the client certificate
    #[arg(long = "kubelet-client-key", value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,

    /// The authority that has signed its certificate [default: the system's]
    #[arg(long = "kubelet-ca-file", value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Take whatever certificate it shows; anybody may then claim to be it
    #[arg(long = "kubelet-insecure-tls", conflicts_with = "ca_file")]
    insecure_tls: bool,
}

impl KubeletAccess {
    /// Whether one was named.
    pub const fn is_given(&self) -> bool {
        self.url.is_some() || self.token_file.is_some() || self.client_cert.is_some()
    }

    /// The kubelet that was named, if one was.
    pub fn api(&self, context: &Context) -> Result<Option<KubeletApi>, Error> {
        if !self.is_given() {
            return Ok(None);
        }
        let url = self.url.as_deref().unwrap_or(DEFAULT_URL);
        http::check(url).map_err(Error::Kubelet)?;
        if self.insecure_tls {
            context.remark(&format!("anybody may claim to be {url}: its certificate is not looked at"));
        }
        let pair = self.client_cert.clone().zip(self.client_key.clone());
        let credentials = Credentials {
            token: self.token_file.clone(),
            certificate: pair,
            authority: self.ca_file.clone(),
            insecure: self.insecure_tls,
        };
        Ok(Some(KubeletApi::new(url, &credentials)?))
    }
}
