//! Validates volumes: their names, that each has exactly one source, and the fields of each kind of source.

use std::collections::{HashMap, HashSet};

use super::validator::Validator;
use crate::Check;
use crate::pod_field::PodField;

use super::{claim_template, names, projected};

/// A rule for one field of a volume source.
enum VolumeRule {
    /// The text or list must not be empty.
    Required(&'static str),
    /// The number, if given, must be in this range.
    Range(&'static str, i64, i64),
    /// The reference, if given, must have a name.
    ReferenceNamed(&'static str),
    /// The text, if not empty, must be a DNS label.
    Label(&'static str),
}

use VolumeRule::{Label, Range, ReferenceNamed, Required};

/// The rules of sources that need no code.
const SOURCE_RULES: &[(&str, &[VolumeRule])] = &[
    ("gcePersistentDisk", &[Required("pdName"), Range("partition", 0, 255)]),
    ("awsElasticBlockStore", &[Required("volumeID"), Range("partition", 0, 255)]),
    ("glusterfs", &[Required("endpoints"), Required("path")]),
    ("persistentVolumeClaim", &[Required("claimName")]),
    ("rbd", &[Required("monitors"), Required("image")]),
    ("cinder", &[Required("volumeID"), ReferenceNamed("secretRef")]),
    ("cephfs", &[Required("monitors")]),
    ("azureDisk", &[Required("diskName"), Required("diskURI")]),
    ("azureFile", &[Required("secretName"), Required("shareName")]),
    ("vsphereVolume", &[Required("volumePath")]),
    ("photonPersistentDisk", &[Required("pdID")]),
    ("portworxVolume", &[Required("volumeID")]),
    ("scaleIO", &[Required("gateway"), Required("system"), Required("volumeName")]),
    (
        "storageos",
        &[Required("volumeName"), Label("volumeName"), Label("volumeNamespace"), ReferenceNamed("secretRef")],
    ),
    ("secret", &[Required("secretName"), Range("defaultMode", 0, 0o777)]),
    ("configMap", &[Required("name"), Range("defaultMode", 0, 0o777)]),
];

/// All sources, in the order in which the kubelet counts them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Validates the volumes. Returns the valid volumes by name.
pub fn validate<'a>(
    validator: &mut Validator,
    spec: &PodField<'a>,
    pod_name: &str,
) -> HashMap<&'a str, PodField<'a>> {
    let volumes = spec.get("volumes").items();
    let mut valid: HashMap<&str, PodField<'_>> = HashMap::new();
    let ephemeral_claims: HashSet<String> = volumes
        .iter()
        .filter(|volume| volume.get("ephemeral").is_set())
        .map(|volume| format!("{pod_name}-{}", volume.get("name").str()))
        .collect();
    for volume in volumes {
        let before = validator.count();
        validate_source(validator, &volume, pod_name);
        let name = volume.get("name");
        validator.required_text(Check::Volume, &name, "a volume needs a name", names::label);
        if valid.contains_key(name.str()) {
            validator.duplicate(Check::Volume, &name);
        }
        let claim = volume.get("persistentVolumeClaim").get("claimName");
        let is_valid = validator.count() == before;
        // The kubelet reports this error, but still counts the volume as valid.
        if ephemeral_claims.contains(claim.str()) {
            validator.invalid(
                Check::Volume,
                &claim,
                "is the claim that an ephemeral volume of this pod creates",
            );
        }
        if is_valid {
            valid.insert(name.str(), volume);
        }
    }
    valid
}

/// Validates that a volume has exactly one source, and the fields of its first source.
fn validate_source(validator: &mut Validator, volume: &PodField<'_>, pod_name: &str) {
    let mut sources = volume.present(SOURCES);
    // In 1.31 the kubelet does not count `image` as a source, because the feature gate ImageVolume is off. Later releases
    // always count it.
    sources.retain(|(name, _)| *name != "image" || validator.version.at_least(32));
    let Some(((kind, at), others)) = sources.split_first() else {
        validator.required(Check::Volume, volume, "a volume needs a type");
        return;
    };
    for (_, other) in others {
        validator.forbidden(Check::Volume, other, "a volume may not have more than one type");
    }
    for (_, rules) in SOURCE_RULES.iter().filter(|(name, _)| name == kind) {
        for rule in *rules {
            apply_rule(validator, at, rule);
        }
    }
    match *kind {
        "emptyDir" if at.get("sizeLimit").quantity().is_negative() => {
            validator.forbidden(Check::Volume, &at.get("sizeLimit"), "must not be negative");
        }
        "hostPath" => host_path(validator, at),
        "gitRepo" => git_repo(validator, at),
        "secret" | "configMap" => projected::items(validator, &at.get("items")),
        "nfs" => nfs(validator, at),
        "iscsi" => iscsi(validator, at),
        "flocker" => flocker(validator, at),
        "quobyte" => quobyte(validator, at),
        "downwardAPI" => projected::downward(validator, at),
        "fc" => fibre_channel(validator, at),
        "flexVolume" => flex_volume(validator, at),
        "azureDisk" => azure_disk(validator, at),
        "projected" => projected::validate(validator, at),
        "csi" => csi(validator, at),
        "ephemeral" => claim_template::validate(validator, volume, pod_name),
        "image" => image(validator, at),
        _ => {}
    }
    iscsi_directory_name(validator, volume);
}

/// Validates one field of a volume source.
fn apply_rule(validator: &mut Validator, source: &PodField<'_>, rule: &VolumeRule) {
    match rule {
        Required(field) => {
            validator.not_empty(Check::Volume, &source.get(field), "is required for this type of volume");
        }
        Range(field, low, high) => {
            let at = source.get(field);
            if at.opt_int().is_some_and(|number| !(*low..=*high).contains(&number)) {
                validator.invalid(Check::Volume, &at, &format!("must be between {low} and {high}"));
            }
        }
        ReferenceNamed(field) => {
            let at = source.get(field);
            if at.is_set() {
                validator.not_empty(Check::Volume, &at.get("name"), "the name is required");
            }
        }
        Label(field) => validator.optional_text(Check::Volume, &source.get(field), names::label),
    }
}

/// Validates `hostPath`.
fn host_path(validator: &mut Validator, at: &PodField<'_>) {
    const TYPES: &[&str] = &[
        "",
        "DirectoryOrCreate",
        "Directory",
        "FileOrCreate",
        "File",
        "Socket",
        "CharDevice",
        "BlockDevice",
    ];
    let path = at.get("path");
    if !validator.not_empty(Check::Volume, &path, "a host path is required") {
        return;
    }
    validator.text(Check::Volume, &path, names::no_backsteps);
    validator.optional_one_of(Check::Volume, &at.get("type"), TYPES);
}

/// Validates `gitRepo`.
fn git_repo(validator: &mut Validator, at: &PodField<'_>) {
    validator.not_empty(Check::Volume, &at.get("repository"), "is required for this type of volume");
    validator.text(Check::Volume, &at.get("directory"), names::descending_path);
}

/// Validates `nfs`.
fn nfs(validator: &mut Validator, at: &PodField<'_>) {
    validator.not_empty(Check::Volume, &at.get("server"), "is required for this type of volume");
    if !at.get("path").str().starts_with('/') {
        validator.invalid(Check::Volume, &at.get("path"), "must be an absolute path");
    }
}

/// Validates `iscsi`.
fn iscsi(validator: &mut Validator, at: &PodField<'_>) {
    validator.not_empty(Check::Volume, &at.get("targetPortal"), "is required for this type of volume");
    let name = at.get("iqn");
    if name.is_empty() {
        validator.required(Check::Volume, &name, "is required for this type of volume");
    } else if !is_iscsi_name(name.str()) {
        validator.invalid(Check::Volume, &name, "must be an iqn, eui or naa name");
    }
    let lun = at.get("lun");
    if !(0..=255).contains(&lun.int()) {
        validator.invalid(Check::Volume, &lun, "must be between 0 and 255");
    }
    let chap = at.get("chapAuthDiscovery").is_true() || at.get("chapAuthSession").is_true();
    if chap && !at.get("secretRef").is_set() {
        validator.required(Check::Volume, &at.get("secretRef"), "is required for CHAP");
    }
    let initiator = at.get("initiatorName");
    if initiator.opt_str().is_some_and(|name| !is_iscsi_name(name)) {
        validator.invalid(Check::Volume, &initiator, "must be an iqn, eui or naa name");
    }
}

/// Validates the length of the directory's name of an iSCSI volume with an initiator, which contains the volume's name and
/// the target portal.
fn iscsi_directory_name(validator: &mut Validator, volume: &PodField<'_>) {
    let source = volume.get("iscsi");
    let length = volume.get("name").str().len() + 1 + source.get("targetPortal").str().len();
    if source.get("initiatorName").is_set() && length > 64 {
        validator.invalid(
            Check::Volume,
            &volume.get("name"),
            "together with the target portal must be shorter than 65 characters",
        );
    }
}

/// Whether a text is an iSCSI name, which starts with `iqn`, `eui` or `naa`.
fn is_iscsi_name(name: &str) -> bool {
    let exactly = |rest: &str, count: usize| {
        rest.len() == count + 1 && rest.bytes().skip(1).all(|byte| byte.is_ascii_alphanumeric())
    };
    if let Some(rest) = name.strip_prefix("eui") {
        return exactly(rest, 16);
    }
    if let Some(rest) = name.strip_prefix("naa") {
        return exactly(rest, 32);
    }
    name.starts_with("iqn")
        && name.match_indices("iqn.").any(|(at, _)| is_iqn(name.get(at + 4..).unwrap_or_default()))
}

/// Whether the text after `iqn.` is valid, such as `2001-04.com.example:storage`.
fn is_iqn(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let has_date = digits(0..4) && bytes.get(4) == Some(&b'-') && digits(5..7) && bytes.get(7) == Some(&b'.');
    let Some((authority, unit)) = rest.get(8..).and_then(|rest| rest.split_once(':')) else { return false };
    has_date
        && !authority.is_empty()
        && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        && !unit.is_empty()
        && !unit.contains(|letter: char| {
            matches!(letter, ',' | ';' | '*' | '&' | '$' | '|') || letter.is_whitespace()
        })
}

/// Validates `flocker`.
fn flocker(validator: &mut Validator, at: &PodField<'_>) {
    let (name, uuid) = (at.get("datasetName"), at.get("datasetUUID"));
    if name.is_empty() == uuid.is_empty() {
        validator.invalid(Check::Volume, at, "must have either datasetName or datasetUUID");
    }
    if name.str().contains('/') {
        validator.invalid(Check::Volume, &name, "must not contain `/`");
    }
}

/// Validates `quobyte`.
fn quobyte(validator: &mut Validator, at: &PodField<'_>) {
    let registry = at.get("registry");
    if registry.is_empty() {
        validator.required(Check::Volume, &registry, "is required for this type of volume");
    } else if at.get("tenant").str().len() >= 65 {
        validator.required(Check::Volume, &at.get("tenant"), "may have at most 64 characters");
    } else if !registry.str().split(',').all(is_host_port) {
        validator.invalid(Check::Volume, &registry, "must be pairs of host:port, separated by commas");
    }
    validator.not_empty(Check::Volume, &at.get("volume"), "is required for this type of volume");
}

/// Whether a text is `HOST:PORT`, as Go splits it.
fn is_host_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => rest
            .split_once("]:")
            .is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains([':', '[', ']'])),
        None => pair
            .split_once(':')
            .is_some_and(|(host, port)| !port.contains([':', '[', ']']) && !host.contains(['[', ']'])),
    }
}

/// Validates `fc`.
fn fibre_channel(validator: &mut Validator, at: &PodField<'_>) {
    let (targets, wwids, lun) = (at.get("targetWWNs"), at.get("wwids"), at.get("lun"));
    if targets.is_empty() == wwids.is_empty() {
        validator.required(Check::Volume, &targets, "must have either targetWWNs or wwids");
    }
    if targets.is_empty() {
        return;
    }
    match lun.opt_int() {
        None => {
            validator.required(Check::Volume, &lun, "is required with targetWWNs");
        }
        Some(number) if !(0..=255).contains(&number) => {
            validator.invalid(Check::Volume, &lun, "must be between 0 and 255");
        }
        Some(_) => {}
    }
}

/// Validates `flexVolume`.
fn flex_volume(validator: &mut Validator, at: &PodField<'_>) {
    validator.not_empty(Check::Volume, &at.get("driver"), "is required for this type of volume");
    for (entry, value) in at.get("options").entries() {
        let domain = entry.key.split('/').next().unwrap_or_default().to_lowercase();
        let dotted = format!(".{domain}");
        if dotted.ends_with(".kubernetes.io") || dotted.ends_with(".k8s.io") {
            validator.invalid(Check::Volume, &value, "the domains kubernetes.io and k8s.io are reserved");
        }
    }
}

/// Validates `azureDisk`.
fn azure_disk(validator: &mut Validator, at: &PodField<'_>) {
    validator.one_of(Check::Volume, &at.get("cachingMode"), &["None", "ReadOnly", "ReadWrite"]);
    validator.one_of(Check::Volume, &at.get("kind"), &["Shared", "Dedicated", "Managed"]);
    let managed = at.get("kind").str() == "Managed";
    let prefix = if managed { "/subscriptions/" } else { "https://" };
    if !at.get("diskURI").str().starts_with(prefix) {
        validator.invalid(
            Check::Volume,
            &at.get("diskURI"),
            &format!("must start with `{prefix}` for a disk of this kind"),
        );
    }
}

/// Validates `csi`.
fn csi(validator: &mut Validator, at: &PodField<'_>) {
    let driver = at.get("driver");
    if driver.is_empty() {
        validator.required(Check::Volume, &driver, "is required for this type of volume");
    } else if driver.str().len() > 63 {
        validator.invalid(Check::Volume, &driver, "may have at most 63 characters");
    } else if let Some(wrong) = names::subdomain(&driver.str().to_lowercase()) {
        validator.invalid(Check::Volume, &driver, wrong);
    }
    let secret = at.get("nodePublishSecretRef");
    if secret.is_set() {
        let name = secret.get("name");
        validator.required_text(Check::Volume, &name, "the name is required", names::subdomain);
    }
}

/// Validates an image volume. The file source does not require the reference; only the API server does.
fn image(validator: &mut Validator, at: &PodField<'_>) {
    let policy = at.get("pullPolicy");
    if policy.is_empty() {
        validator
            .required(Check::Volume, &policy, "is required: this release has no default for it")
            .fix("add pullPolicy: IfNotPresent");
    } else {
        validator.one_of(Check::Volume, &policy, &["Always", "IfNotPresent", "Never"]);
    }
}
