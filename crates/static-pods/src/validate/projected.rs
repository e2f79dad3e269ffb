//! Validates projected volumes and downward API volumes, and the items of secret and config map volumes.

use std::collections::HashSet;

use super::validator::Validator;
use crate::Check;
use crate::pod_field::PodField;

use super::{env, names, resource_field, scheduling};

/// Fields that a volume may refer to.
const FIELDS: &[&str] =
    &["metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"];

/// The types of sources of a projected volume, in the order in which the kubelet validates them.
const SOURCES: &[&str] =
    &["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

/// Validates the items of a secret or config map.
pub fn items(validator: &mut Validator, items: &PodField<'_>) {
    for item in items.items() {
        validator.not_empty(Check::Volume, &item.get("key"), "the key is required");
        file(validator, &item);
    }
}

/// Validates the path and the mode of a file.
fn file(validator: &mut Validator, item: &PodField<'_>) {
    let path = item.get("path");
    validator.not_empty(Check::Volume, &path, "the path is required");
    validator.text(Check::Volume, &path, names::local_path);
    mode(validator, &item.get("mode"));
}

fn mode(validator: &mut Validator, mode: &PodField<'_>) {
    validator.problem(Check::Volume, mode, mode.opt_int().and_then(names::file_mode));
}

/// Validates a downward API volume.
pub fn downward(validator: &mut Validator, volume: &PodField<'_>) {
    mode(validator, &volume.get("defaultMode"));
    downward_files(validator, volume);
}

/// Validates the items. The kubelet's messages have the path of the volume, without the item.
fn downward_files(validator: &mut Validator, source: &PodField<'_>) {
    for item in source.get("items").items() {
        downward_file(validator, &item.called(source.path().to_owned()));
    }
}

fn downward_file(validator: &mut Validator, item: &PodField<'_>) {
    file(validator, item);
    let (field, resource) = (item.get("fieldRef"), item.get("resourceFieldRef"));
    if field.is_set() {
        env::field_ref(validator, &field, FIELDS);
        if field.get("fieldPath").str() == "status.hostIPs"
            && !validator.version.at_least(env::HOST_IPS_SINCE)
        {
            validator.forbidden(Check::Volume, &field, "needs the feature gate PodHostIPs, which is off");
        }
        if resource.is_set() {
            validator.invalid(Check::Volume, item, "may not have both fieldRef and resourceFieldRef");
        }
    } else if resource.is_set() {
        resource_field::validate(validator, &resource, true);
    } else {
        validator.required(Check::Volume, item, "must have fieldRef or resourceFieldRef");
    }
}

/// Validates a projected volume.
pub fn validate(validator: &mut Validator, volume: &PodField<'_>) {
    mode(validator, &volume.get("defaultMode"));
    let mut paths = HashSet::new();
    for source in volume.get("sources").items() {
        let given = source.present(SOURCES);
        for (kind, at) in &given {
            match *kind {
                "downwardAPI" => {
                    downward_files(validator, at);
                    unique_paths(validator, &mut paths, at, volume);
                }
                "serviceAccountToken" => token(validator, at, volume),
                "clusterTrustBundle" => bundle(validator, at),
                "podCertificate" => certificate(validator, at),
                _ => {
                    validator.not_empty(Check::Volume, &at.get("name"), "the name is required");
                    items(validator, &at.get("items"));
                    unique_paths(validator, &mut paths, at, volume);
                }
            }
        }
        if given.len() > 1 {
            validator.forbidden(Check::Volume, &source, "a source may not have more than one type");
        }
    }
}

/// Validates that no two files of a volume have the same path.
fn unique_paths<'a>(
    validator: &mut Validator,
    paths: &mut HashSet<&'a str>,
    source: &PodField<'a>,
    volume: &PodField<'_>,
) {
    for item in source.get("items").items() {
        let path = item.get("path").called(volume.path().to_owned());
        if !path.is_empty() && !paths.insert(path.str()) {
            validator.invalid(Check::Volume, &path, "is already the path of another file of this volume");
        }
    }
}

fn token(validator: &mut Validator, token: &PodField<'_>, volume: &PodField<'_>) {
    let expiration = token.get("expirationSeconds");
    if !(600..=1_i64 << 32).contains(&expiration.int()) {
        validator.invalid(Check::Volume, &expiration, "must be between 600 and 2^32 seconds");
    }
    let path = token.get("path").called(format!("{}.path", volume.path()));
    if path.is_empty() {
        validator.required(Check::Volume, &path, "the path is required");
    } else if let (true, Some(wrong)) = (validator.version.at_least(30), names::local_path(path.str())) {
        validator.invalid(Check::Volume, &path, wrong);
    }
}

/// Validates a trust bundle. The kubelet rejects each trust bundle in a static pod, but first reports the errors in it.
fn bundle(validator: &mut Validator, bundle: &PodField<'_>) {
    let (name, signer) = (bundle.get("name"), bundle.get("signerName"));
    if name.is_set() == signer.is_set() {
        validator.invalid(Check::Volume, bundle, "must have either name or signerName");
    }
    if name.is_set() && bundle.get("labelSelector").is_set() {
        validator.invalid(Check::Volume, &bundle.get("labelSelector"), "may not be given with name");
    }
    scheduling::label_selector(validator, &bundle.get("labelSelector"));
    file(validator, bundle);
}

/// Validates a pod certificate. The kubelet rejects each pod certificate in a static pod, but first reports the errors in
/// it.
fn certificate(validator: &mut Validator, certificate: &PodField<'_>) {
    const KEYS: &[&str] = &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    /// The lifetime of a certificate in seconds: minimum, maximum, and maximum for Kubernetes' own signers.
    const SECONDS: [i64; 3] = [3600, 91 * 86_400, 86_400];
    validator.one_of(Check::Volume, &certificate.get("keyType"), KEYS);
    let signer = certificate.get("signerName");
    match signer.str().split_once('/') {
        _ if signer.is_empty() => {
            validator.required(Check::Volume, &signer, "the name of the signer is required");
        }
        Some((domain, path)) if names::subdomain(domain).is_none() && !path.is_empty() => {}
        _ => {
            validator.invalid(
                Check::Volume,
                &signer,
                "must be a domain and a path, such as `example.com/signer`",
            );
        }
    }
    let expiration = certificate.get("maxExpirationSeconds");
    let [shortest, longest, longest_of_kubernetes] = SECONDS;
    let is_of_kubernetes = signer.str().starts_with("kubernetes.io/");
    let longest = if is_of_kubernetes { longest_of_kubernetes } else { longest };
    if expiration.opt_int().is_some_and(|seconds| !(shortest..=longest).contains(&seconds)) {
        validator.invalid(
            Check::Volume,
            &expiration,
            &format!("must be between {shortest} and {longest} seconds"),
        );
    }
    let paths = ["credentialBundlePath", "keyPath", "certificateChainPath"].map(|path| certificate.get(path));
    if paths.iter().all(PodField::is_empty) {
        validator.required(Check::Volume, certificate, "needs at least one path");
    }
    for path in paths.iter().filter(|path| !path.is_empty()) {
        validator.text(Check::Volume, path, names::local_path);
    }
}

/// Validates that no token is requested, because a static pod has no service account.
pub fn tokens_without_account(validator: &mut Validator, spec: &PodField<'_>) {
    if !spec.get("serviceAccountName").is_empty() {
        return;
    }
    for volume in spec.get("volumes").items() {
        for source in volume.get("projected").get("sources").items() {
            let token = source.get("serviceAccountToken");
            if token.is_set() {
                validator.forbidden(Check::Volume, &token, "may not be given without serviceAccountName").fix(
                    "remove the token; if the static pod needs the API server, give it a kubeconfig through a hostPath",
                );
            }
        }
    }
}
