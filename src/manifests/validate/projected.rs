//! Files made of API objects: projected and downward API volumes, and their items.

use std::collections::HashSet;

use super::judge::Judge;
use crate::manifests::Check;
use crate::manifests::place::Place;

use super::{env, names, resource_field, scheduling};

/// Fields that a volume can show.
const FIELDS: &[&str] =
    &["metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"];

/// The release that takes the addresses of the host anywhere.
const HOST_IPS: u8 = 32;

/// Judges the items of a secret or config map.
pub fn items(judge: &mut Judge, items: &Place<'_>) {
    for item in items.items() {
        if item.get("key").is_empty() {
            judge.required(Check::Volume, &item.get("key"), "the key is required");
        }
        file(judge, &item);
    }
}

/// The path and the mode of a file.
fn file(judge: &mut Judge, item: &Place<'_>) {
    let path = item.get("path");
    if path.is_empty() {
        judge.required(Check::Volume, &path, "the path is required");
    }
    if let Some(wrong) = names::local_path(path.str()) {
        judge.invalid(Check::Volume, &path, wrong);
    }
    mode(judge, &item.get("mode"));
}

fn mode(judge: &mut Judge, mode: &Place<'_>) {
    if let Some(wrong) = mode.opt_int().and_then(names::file_mode) {
        judge.invalid(Check::Volume, mode, wrong);
    }
}

/// Judges a downward API volume.
pub fn downward(judge: &mut Judge, volume: &Place<'_>) {
    mode(judge, &volume.get("defaultMode"));
    downward_files(judge, volume);
}

/// The kubelet names these by their volume, without saying which item it means.
fn downward_files(judge: &mut Judge, source: &Place<'_>) {
    for item in source.get("items").items() {
        downward_file(judge, &item.called(source.path().to_owned()));
    }
}

fn downward_file(judge: &mut Judge, item: &Place<'_>) {
    file(judge, item);
    let (field, resource) = (item.get("fieldRef"), item.get("resourceFieldRef"));
    if field.is_set() {
        env::field_ref(judge, &field, FIELDS);
        if field.get("fieldPath").str() == "status.hostIPs" && !judge.version.at_least(HOST_IPS) {
            judge.forbidden(Check::Volume, &field, "needs the feature gate PodHostIPs, which is closed");
        }
        if resource.is_set() {
            judge.invalid(Check::Volume, item, "may not have both fieldRef and resourceFieldRef");
        }
    } else if resource.is_set() {
        resource_field::validate(judge, &resource, true);
    } else {
        judge.required(Check::Volume, item, "must have fieldRef or resourceFieldRef");
    }
}

/// Judges a projected volume.
pub fn validate(judge: &mut Judge, volume: &Place<'_>) {
    mode(judge, &volume.get("defaultMode"));
    let mut paths = HashSet::new();
    for source in volume.get("sources").items() {
        let mut given = 0;
        for kind in ["secret", "configMap"] {
            let at = source.get(kind);
            if at.is_set() {
                given += 1;
                if at.get("name").is_empty() {
                    judge.required(Check::Volume, &at.get("name"), "the name is required");
                }
                items(judge, &at.get("items"));
                unique(judge, &mut paths, &at, volume);
            }
        }
        let fields = source.get("downwardAPI");
        if fields.is_set() {
            given += 1;
            downward_files(judge, &fields);
            unique(judge, &mut paths, &fields, volume);
        }
        if source.get("serviceAccountToken").is_set() {
            given += 1;
            token(judge, &source.get("serviceAccountToken"), volume);
        }
        if source.get("clusterTrustBundle").is_set() {
            given += 1;
            bundle(judge, &source.get("clusterTrustBundle"));
        }
        if source.get("podCertificate").is_set() {
            given += 1;
            certificate(judge, &source.get("podCertificate"));
        }
        if given > 1 {
            judge.forbidden(Check::Volume, &source, "a source may not have more than one type");
        }
    }
}

fn unique<'a>(judge: &mut Judge, paths: &mut HashSet<&'a str>, source: &Place<'a>, volume: &Place<'_>) {
    for item in source.get("items").items() {
        let path = item.get("path").called(volume.path().to_owned());
        if !path.is_empty() && !paths.insert(path.str()) {
            judge.invalid(Check::Volume, &path, "is already the path of another file of this volume");
        }
    }
}

fn token(judge: &mut Judge, token: &Place<'_>, volume: &Place<'_>) {
    let expiration = token.get("expirationSeconds");
    if !(600..=1_i64 << 32).contains(&expiration.int()) {
        judge.invalid(Check::Volume, &expiration, "must be between 600 and 2^32 seconds");
    }
    let path = token.get("path").called(format!("{}.path", volume.path()));
    if path.is_empty() {
        judge.required(Check::Volume, &path, "the path is required");
    } else if let (true, Some(wrong)) = (judge.version.at_least(30), names::local_path(path.str())) {
        judge.invalid(Check::Volume, &path, wrong);
    }
}

/// The kubelet refuses these in static pods anyway; what is wrong with them is said first.
fn bundle(judge: &mut Judge, bundle: &Place<'_>) {
    let (name, signer) = (bundle.get("name"), bundle.get("signerName"));
    if name.is_set() == signer.is_set() {
        judge.invalid(Check::Volume, bundle, "must have either name or signerName");
    }
    if name.is_set() && bundle.get("labelSelector").is_set() {
        judge.invalid(Check::Volume, &bundle.get("labelSelector"), "may not be given with name");
    }
    scheduling::label_selector(judge, &bundle.get("labelSelector"));
    file(judge, bundle);
}

/// A certificate for the pod. Like a bundle it is refused in any case, but for its own faults first.
fn certificate(judge: &mut Judge, certificate: &Place<'_>) {
    const KEYS: &[&str] = &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    /// Seconds that a certificate may be asked for: an hour at least, 91 days at most, a day from Kubernetes' own signers.
    const SECONDS: [i64; 3] = [3600, 91 * 86_400, 86_400];
    judge.one_of(Check::Volume, &certificate.get("keyType"), KEYS);
    let signer = certificate.get("signerName");
    match signer.str().split_once('/') {
        _ if signer.is_empty() => {
            judge.required(Check::Volume, &signer, "the name of the signer is required");
        }
        Some((domain, path)) if names::subdomain(domain).is_none() && !path.is_empty() => {}
        _ => {
            judge.invalid(Check::Volume, &signer, "must be a domain and a path, `example.com/signer`");
        }
    }
    let expiration = certificate.get("maxExpirationSeconds");
    let [shortest, longest, longest_of_kubernetes] = SECONDS;
    let own = signer.str().starts_with("kubernetes.io/");
    let longest = if own { longest_of_kubernetes } else { longest };
    if expiration.opt_int().is_some_and(|seconds| !(shortest..=longest).contains(&seconds)) {
        judge.invalid(
            Check::Volume,
            &expiration,
            &format!("must be between {shortest} and {longest} seconds"),
        );
    }
    let paths = ["credentialBundlePath", "keyPath", "certificateChainPath"].map(|path| certificate.get(path));
    if paths.iter().all(Place::is_empty) {
        judge.required(Check::Volume, certificate, "needs at least one path");
    }
    for path in paths.iter().filter(|path| !path.is_empty()) {
        if let Some(wrong) = names::local_path(path.str()) {
            judge.invalid(Check::Volume, path, wrong);
        }
    }
}

/// Tokens need an account, which a static pod does not have.
pub fn tokens_without_account(judge: &mut Judge, spec: &Place<'_>) {
    if !spec.get("serviceAccountName").is_empty() {
        return;
    }
    for volume in spec.get("volumes").items() {
        for source in volume.get("projected").get("sources").items() {
            let token = source.get("serviceAccountToken");
            if token.is_set() {
                judge.forbidden(Check::Volume, &token, "may not be given without serviceAccountName").fix(
                    "remove the token; a static pod that needs the API takes a kubeconfig from a hostPath",
                );
            }
        }
    }
}
