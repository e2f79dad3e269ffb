//! Decides which server certificates are accepted, presents client certificates, and explains why a certificate is
//! refused.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use plegctl_base::report::load::{LARGEST_SETTING, load};
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    self, AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

/// Where Linux distributions store the certificates of trusted authorities.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Which server certificates are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTrust {
    /// Certificates that the system's authorities signed.
    System,
    /// Certificates that these authorities signed.
    Authorities(Vec<CertificateDer<'static>>),
    /// Only these certificates; the names in them do not matter.
    Only(Vec<CertificateDer<'static>>),
    /// These certificates, whatever names are in them, and certificates that the system's authorities signed.
    SystemOr(Vec<CertificateDer<'static>>),
    /// Any certificate.
    Insecure,
}

/// A client certificate and its key.
pub struct ClientIdentity {
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl fmt::Debug for ClientIdentity {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIdentity")
            .field("certificates", &self.certificates.len())
            .finish_non_exhaustive()
    }
}

/// Why a certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The text is not PEM, or contains something else.
    #[error("`{name}` contains no {what} in PEM form: {detail}")]
    Pem {
        /// The name of the text.
        name: String,
        /// What was expected.
        what: &'static str,
        /// The parser's message.
        detail: String,
    },
    /// The key does not belong to the certificate, or the TLS library cannot use them.
    #[error("the certificate cannot be used: {}", without_type_names(&.0.to_string()))]
    Unusable(rustls::Error),
    /// The system has no trusted authorities at the usual paths.
    #[error("this system has no bundle of certificate authorities (looked at {})", SYSTEM_BUNDLES.join(", "))]
    NoBundle,
}

impl PemError {
    /// Whether reading a file took too long.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::TimedOut)
    }
}

impl ClientIdentity {
    /// Parses PEM; error messages contain `name`.
    pub fn from_pem(certificate: &[u8], key: &[u8], name: &str) -> Result<Self, PemError> {
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|why| no_pem(name, "private key", &why))?;
        Ok(Self { certificates: certificates(certificate, name)?, key })
    }
}

/// Creates the error for a PEM text without the expected part.
fn no_pem(name: &str, what: &'static str, why: &pem::Error) -> PemError {
    let detail = match why {
        pem::Error::NoItemsFound => "there is none".to_owned(),
        other => other.to_string(),
    };
    PemError::Pem { name: name.to_owned(), what, detail }
}

/// Parses the certificates of a PEM text, at least one.
pub fn certificates(pem: &[u8], name: &str) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|why| no_pem(name, "certificate", &why))?;
    if found.is_empty() {
        return Err(no_pem(name, "certificate", &pem::Error::NoItemsFound));
    }
    Ok(found)
}

fn system_authorities() -> Result<Vec<CertificateDer<'static>>, PemError> {
    let settings = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let usual = SYSTEM_BUNDLES.iter().map(PathBuf::from);
    let path = settings.into_iter().chain(usual).find(|path| path.is_file()).ok_or(PemError::NoBundle)?;
    let pem = load(&path, LARGEST_SETTING).map_err(|source| PemError::Read { path: path.clone(), source })?;
    certificates(&pem, &path.display().to_string())
}

/// Converts a host to the name that the server's certificate must have.
pub(super) fn server_name(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).ok()
}

/// Creates the TLS configuration of a client.
pub(super) fn config(
    trust: &ServerTrust,
    identity: Option<&ClientIdentity>,
) -> Result<ClientConfig, PemError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(PemError::Unusable)?
        .dangerous()
        .with_custom_certificate_verifier(verifier(trust, &provider)?);
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => builder
            .with_client_auth_cert(identity.certificates.clone(), identity.key.clone_key())
            .map_err(PemError::Unusable),
    }
}

fn verifier(trust: &ServerTrust, provider: &Arc<CryptoProvider>) -> Result<Arc<TrustVerifier>, PemError> {
    let accepted = match trust {
        ServerTrust::Insecure => AcceptedCertificates::All,
        ServerTrust::Only(_) => AcceptedCertificates::None,
        ServerTrust::System => signed_by(system_authorities()?, provider)?,
        ServerTrust::SystemOr(_) => match system_authorities() {
            Err(PemError::NoBundle) => AcceptedCertificates::None,
            authorities => signed_by(authorities?, provider)?,
        },
        ServerTrust::Authorities(authorities) => signed_by(authorities.clone(), provider)?,
    };
    let pinned = match trust {
        ServerTrust::Only(known) | ServerTrust::SystemOr(known) => known.clone(),
        ServerTrust::Insecure | ServerTrust::System | ServerTrust::Authorities(_) => Vec::new(),
    };
    Ok(Arc::new(TrustVerifier { accepted, pinned, provider: Arc::clone(provider) }))
}

fn signed_by(
    authorities: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<AcceptedCertificates, PemError> {
    let mut roots = RootCertStore::empty();
    // Certificates of the bundle that cannot be parsed are left out.
    let (added, _) = roots.add_parsable_certificates(authorities.iter().cloned());
    if added == 0 {
        return Err(PemError::Unusable(rustls::Error::General("no usable certificate authority".to_owned())));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
    let chains = verifier.map_err(|why| PemError::Unusable(rustls::Error::General(why.to_string())))?;
    Ok(AcceptedCertificates::SignedBy { chains, authorities })
}

/// Verifies server certificates according to a [`ServerTrust`]. In addition, each handshake proves that the server
/// has the key of its certificate.
#[derive(Debug)]
struct TrustVerifier {
    accepted: AcceptedCertificates,
    /// Certificates that are accepted whatever names are in them.
    pinned: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum AcceptedCertificates {
    All,
    None,
    /// Certificates that an authority signed, and, as in Go, certificates that are themselves in the list of
    /// authorities: the user may have given the server's own certificate.
    SignedBy {
        chains: Arc<WebPkiServerVerifier>,
        authorities: Vec<CertificateDer<'static>>,
    },
}

impl ServerCertVerifier for TrustVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.accepted {
            _ if self.pinned.contains(end_entity) => Ok(ServerCertVerified::assertion()),
            AcceptedCertificates::All => Ok(ServerCertVerified::assertion()),
            AcceptedCertificates::None => Err(CertificateError::ApplicationVerificationFailure.into()),
            AcceptedCertificates::SignedBy { chains, authorities } => {
                match chains.verify_server_cert(end_entity, intermediates, name, stapled, now) {
                    // The library checks the dates before it checks type and issuer, so the dates are valid here.
                    Err(rustls::Error::InvalidCertificate(
                        CertificateError::UnknownIssuer | CertificateError::Other(_),
                    )) if authorities.contains(end_entity) => {
                        verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                        Ok(ServerCertVerified::assertion())
                    }
                    other => other,
                }
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Removes the type names from an error of the TLS library: `Other(OtherError(CaUsedAsEndEntity))` becomes `ca used
/// as end entity`.
fn without_type_names(words: &str) -> String {
    let mut text = String::new();
    let unwrapped = words.split(' ').map(|word| {
        let inner = word.rsplit('(').next().unwrap_or(word);
        if inner.len() == word.len() { word } else { inner.trim_end_matches(')') }
    });
    for word in unwrapped {
        if !text.is_empty() {
            text.push(' ');
        }
        let mut letters = word.chars().peekable();
        let mut before: Option<char> = None;
        while let Some(letter) = letters.next() {
            let after = letters.peek().copied();
            let is_name = |near: Option<char>| near.is_some_and(|near| near.is_ascii_lowercase());
            let starts_word =
                letter.is_ascii_uppercase() && before.is_some() && (is_name(before) || is_name(after));
            if starts_word {
                text.push(' ');
            }
            let is_abbreviation = letter.is_ascii_uppercase() && !is_name(before) && !is_name(after);
            text.push(if is_abbreviation { letter } else { letter.to_ascii_lowercase() });
            before = Some(letter);
        }
    }
    text
}

/// Why a certificate is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateProblem {
    /// No trusted authority signed the certificate.
    #[error("shows a certificate that no trusted authority has signed")]
    UnknownIssuer,
    /// The certificate is for other names.
    #[error("shows a certificate for another name{}", after_colon(.0))]
    OtherName(Vec<String>),
    /// The certificate is not the one in the kubelet's file.
    #[error("shows another certificate than the one in the kubelet's file")]
    NotKubelets,
    /// The certificate has expired.
    #[error("shows a certificate that has expired")]
    Expired,
    /// The certificate is not valid yet.
    #[error("shows a certificate that is not valid yet")]
    NotYetValid,
    /// The server refused the client's certificate, or requires one.
    #[error("does not accept plegctl's client certificate, or requires one")]
    ClientRefused,
    /// The server does not use TLS.
    #[error("does not speak TLS")]
    NotTls,
    /// Another reason, with the library's message.
    #[error("cannot be reached over TLS: {0}")]
    Other(String),
}

/// Returns the names after a colon; an empty text if there is none.
fn after_colon(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
}

impl CertificateProblem {
    /// Returns the reason why a handshake failed; `None` if the error does not come from TLS.
    pub(super) fn from_error(why: &io::Error) -> Option<Self> {
        let why = why.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(match why {
            rustls::Error::InvalidCertificate(invalid) => match invalid {
                CertificateError::UnknownIssuer => Self::UnknownIssuer,
                CertificateError::NotValidForName => Self::OtherName(Vec::new()),
                CertificateError::NotValidForNameContext { presented, .. } => {
                    Self::OtherName(presented.clone())
                }
                CertificateError::ApplicationVerificationFailure => Self::NotKubelets,
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Self::NotYetValid
                }
                other => Self::Other(without_type_names(&other.to_string())),
            },
            rustls::Error::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown,
            ) => Self::ClientRefused,
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            other => Self::Other(without_type_names(&other.to_string())),
        })
    }

    /// Returns what the user can do.
    pub(super) const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownIssuer => Some(
                "give the authority that signed the certificate: for a kubelet with --kubelet-ca-file, for an API \
                 server in the kubeconfig, otherwise with $SSL_CERT_FILE",
            ),
            Self::NotKubelets | Self::Other(_) => {
                Some("give the certificate's authority, or the certificate itself, with --kubelet-ca-file")
            }
            Self::OtherName(_) => Some("use a name that is in its certificate"),
            Self::ClientRefused => Some("give a client certificate that this server's authority has signed"),
            Self::NotTls => Some("try http://"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verifies the server's certificate for a name that is not in it.
    fn verified(trust: &ServerTrust) -> Result<(), rustls::Error> {
        let shown =
            certificates(include_bytes!("../../../../../tests/fleet/pki/server.crt"), "server").unwrap();
        let provider = Arc::new(ring::default_provider());
        let name = server_name("elsewhere.example").unwrap();
        let verifier = verifier(trust, &provider).unwrap();
        verifier.verify_server_cert(&shown[0], &[], &name, &[], UnixTime::now()).map(|_| ())
    }

    #[test]
    fn only_a_pinned_certificate_is_accepted_and_under_any_name() {
        let pem = |text: &[u8]| certificates(text, "").unwrap();
        let authority = pem(include_bytes!("../../../../../tests/fleet/pki/authority.crt"));
        let server = pem(include_bytes!("../../../../../tests/fleet/pki/server.crt"));
        assert!(verified(&ServerTrust::Only([authority.clone(), server].concat())).is_ok());
        let other = verified(&ServerTrust::Only(pem(include_bytes!(
            "../../../../../tests/fleet/pki/other-name.crt"
        ))));
        let trouble = CertificateProblem::from_error(&io::Error::other(other.unwrap_err())).unwrap();
        assert_eq!(trouble.to_string(), "shows another certificate than the one in the kubelet's file");
        assert!(
            verified(&ServerTrust::Authorities(authority)).is_err(),
            "the name must be in a certificate that an authority signed"
        );
    }

    #[test]
    fn certificate_in_the_list_of_authorities_is_accepted_only_under_its_own_name() {
        let pem = |text: &[u8]| certificates(text, "").unwrap();
        let own = pem(include_bytes!("../../../../../tests/fleet/pki/own-authority.crt"));
        let other = pem(include_bytes!("../../../../../tests/fleet/pki/authority.crt"));
        let provider = Arc::new(ring::default_provider());
        let verified = |trust: &[CertificateDer<'static>], name: &str| {
            let verifier = verifier(&ServerTrust::Authorities(trust.to_vec()), &provider).unwrap();
            let name = server_name(name).unwrap();
            verifier.verify_server_cert(&own[0], &[], &name, &[], UnixTime::now()).map(|_| ())
        };
        assert_eq!(verified(&own, "localhost"), Ok(()));
        let trouble = |verified: Result<(), rustls::Error>| {
            CertificateProblem::from_error(&io::Error::other(verified.unwrap_err())).unwrap()
        };
        assert!(matches!(trouble(verified(&own, "elsewhere.example")), CertificateProblem::OtherName(_)));
        let stranger = trouble(verified(&other, "localhost"));
        let message = stranger.to_string();
        assert!(!message.contains("Other") && !message.contains('('), "{message}");
        assert!(stranger.hint().unwrap().contains("--kubelet-ca-file"));
    }

    #[test]
    fn errors_of_the_tls_library_contain_no_type_names() {
        assert_eq!(without_type_names("Other(OtherError(CaUsedAsEndEntity))"), "ca used as end entity");
        assert_eq!(
            without_type_names("received fatal alert: HandshakeFailure"),
            "received fatal alert: handshake failure"
        );
        assert_eq!(without_type_names("peer is incompatible: TLS"), "peer is incompatible: TLS");
    }
}
