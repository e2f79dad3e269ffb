//! Volumes: names, and exactly one source each.

use std::collections::{HashMap, HashSet};

use super::judge::Judge;
use crate::manifests::Check;
use crate::manifests::place::Place;

use super::{claim_template, names, projected};

/// What a simple volume source must have, besides being alone.
enum Rule {
    /// A text or list that is not empty.
    Required(&'static str),
    /// A number in a range, if given.
    Range(&'static str, i64, i64),
    /// If the reference is given, its name is too.
    ReferenceNamed(&'static str),
    /// A DNS label, if not empty.
    Label(&'static str),
}

use Rule::{Label, Range, ReferenceNamed, Required};

/// The sources whose rules are of these shapes only.
const SIMPLE: &[(&str, &[Rule])] = &[
    ("gcePersistentDisk", &[Required("pdName"), Range("partition", 0, 255)]),
    ("awsElasticBlockStore", &[Required("volumeID"), Range("partition", 0, 255)]),
    ("glusterfs", &[Required("endpoints"), Required("path")]),
    ("persistentVolumeClaim", &[Required("claimName")]),
    ("rbd", &[Required("monitors"), Required("image")]),
    ("cinder", &[Required("volumeID"), ReferenceNamed("secretRef")]),
    ("cephfs", &[Required("monitors")]),
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

/// Judges the volumes and gives back those that are valid, by name.
pub fn validate<'a>(judge: &mut Judge, spec: &Place<'a>, pod_name: &str) -> HashMap<&'a str, Place<'a>> {
    let volumes = spec.get("volumes").items();
    let mut valid: HashMap<&str, Place<'_>> = HashMap::new();
    let created: HashSet<String> = volumes
        .iter()
        .filter(|volume| volume.get("ephemeral").is_set())
        .map(|volume| format!("{pod_name}-{}", volume.get("name").str()))
        .collect();
    for volume in volumes {
        let before = judge.count();
        source(judge, &volume, pod_name);
        let name = volume.get("name");
        if name.is_empty() {
            judge.required(Check::Volume, &name, "a volume needs a name");
        } else if let Some(wrong) = names::label(name.str()) {
            judge.invalid(Check::Volume, &name, wrong);
        }
        if valid.contains_key(name.str()) {
            judge.duplicate(Check::Volume, &name);
        }
        let claim = volume.get("persistentVolumeClaim").get("claimName");
        let good = judge.count() == before;
        if created.contains(claim.str()) {
            judge.invalid(Check::Volume, &claim, "is the claim that an ephemeral volume of this pod creates");
        }
        if good {
            valid.insert(name.str(), volume);
        }
    }
    valid
}

fn source(judge: &mut Judge, volume: &Place<'_>, pod_name: &str) {
    // ImageVolume is closed in 1.31 and there keeps the field from being counted; later releases always count it.
    let counted = |name: &&&str| **name != "image" || judge.version.at_least(32);
    let given: Vec<&str> =
        SOURCES.iter().filter(counted).filter(|name| volume.get(name).is_set()).copied().collect();
    let Some((first, others)) = given.split_first() else {
        judge.required(Check::Volume, volume, "a volume needs a type");
        return;
    };
    for other in others {
        judge.forbidden(Check::Volume, &volume.get(other), "a volume may not have more than one type");
    }
    let at = volume.get(first);
    for (_, rules) in SIMPLE.iter().filter(|(name, _)| name == first) {
        for rule in *rules {
            simple(judge, &at, rule);
        }
    }
    match *first {
        "emptyDir" if at.get("sizeLimit").quantity().is_negative() => {
            judge.forbidden(Check::Volume, &at.get("sizeLimit"), "must not be negative");
        }
        "hostPath" => host_path(judge, &at),
        "gitRepo" => git_repo(judge, &at),
        "secret" | "configMap" => projected::items(judge, &at.get("items")),
        "nfs" => nfs(judge, &at),
        "iscsi" => iscsi(judge, &at),
        "flocker" => flocker(judge, &at),
        "quobyte" => quobyte(judge, &at),
        "downwardAPI" => projected::downward(judge, &at),
        "fc" => fibre_channel(judge, &at),
        "flexVolume" => flex(judge, &at),
        "azureDisk" => azure_disk(judge, &at),
        "projected" => projected::validate(judge, &at),
        "csi" => csi(judge, &at),
        "ephemeral" => claim_template::validate(judge, volume, pod_name),
        "image" => image(judge, &at),
        _ => {}
    }
    long_portal(judge, volume);
}

fn simple(judge: &mut Judge, source: &Place<'_>, rule: &Rule) {
    match rule {
        Required(field) => {
            if source.get(field).is_empty() {
                judge.required(Check::Volume, &source.get(field), "is required for this type of volume");
            }
        }
        Range(field, low, high) => {
            let at = source.get(field);
            if at.opt_int().is_some_and(|number| !(*low..=*high).contains(&number)) {
                judge.invalid(Check::Volume, &at, &format!("must be between {low} and {high}"));
            }
        }
        ReferenceNamed(field) => {
            let at = source.get(field);
            if at.is_set() && at.get("name").is_empty() {
                judge.required(Check::Volume, &at.get("name"), "the name is required");
            }
        }
        Label(field) => {
            let at = source.get(field);
            if let (false, Some(wrong)) = (at.is_empty(), names::label(at.str())) {
                judge.invalid(Check::Volume, &at, wrong);
            }
        }
    }
}

fn host_path(judge: &mut Judge, at: &Place<'_>) {
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
    if path.is_empty() {
        judge.required(Check::Volume, &path, "a host path is required");
        return;
    }
    if let Some(wrong) = names::no_backsteps(path.str()) {
        judge.invalid(Check::Volume, &path, wrong);
    }
    if at.get("type").is_set() {
        judge.one_of(Check::Volume, &at.get("type"), TYPES);
    }
}

fn git_repo(judge: &mut Judge, at: &Place<'_>) {
    if at.get("repository").is_empty() {
        judge.required(Check::Volume, &at.get("repository"), "is required for this type of volume");
    }
    if let Some(wrong) = names::descending_path(at.get("directory").str()) {
        judge.invalid(Check::Volume, &at.get("directory"), wrong);
    }
}

fn nfs(judge: &mut Judge, at: &Place<'_>) {
    if at.get("server").is_empty() {
        judge.required(Check::Volume, &at.get("server"), "is required for this type of volume");
    }
    if !at.get("path").str().starts_with('/') {
        judge.invalid(Check::Volume, &at.get("path"), "must be an absolute path");
    }
}

fn iscsi(judge: &mut Judge, at: &Place<'_>) {
    if at.get("targetPortal").is_empty() {
        judge.required(Check::Volume, &at.get("targetPortal"), "is required for this type of volume");
    }
    let name = at.get("iqn");
    if name.is_empty() {
        judge.required(Check::Volume, &name, "is required for this type of volume");
    } else if !is_iscsi_name(name.str()) {
        judge.invalid(Check::Volume, &name, "must be an iqn, eui or naa name");
    }
    let lun = at.get("lun");
    if !(0..=255).contains(&lun.int()) {
        judge.invalid(Check::Volume, &lun, "must be between 0 and 255");
    }
    let chap = at.get("chapAuthDiscovery").is_true() || at.get("chapAuthSession").is_true();
    if chap && !at.get("secretRef").is_set() {
        judge.required(Check::Volume, &at.get("secretRef"), "is required for CHAP");
    }
    let initiator = at.get("initiatorName");
    if initiator.opt_str().is_some_and(|name| !is_iscsi_name(name)) {
        judge.invalid(Check::Volume, &initiator, "must be an iqn, eui or naa name");
    }
}

/// The directory of an iSCSI volume with an initiator is named for volume and portal.
fn long_portal(judge: &mut Judge, volume: &Place<'_>) {
    let source = volume.get("iscsi");
    let length = volume.get("name").str().len() + 1 + source.get("targetPortal").str().len();
    if source.get("initiatorName").is_set() && length > 64 {
        judge.invalid(
            Check::Volume,
            &volume.get("name"),
            "together with the target portal must be shorter than 65 characters",
        );
    }
}

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

/// `2001-04.com.example:storage`, after the `iqn.`.
fn is_iqn(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let dated = digits(0..4) && bytes.get(4) == Some(&b'-') && digits(5..7) && bytes.get(7) == Some(&b'.');
    let Some((authority, unit)) = rest.get(8..).and_then(|rest| rest.split_once(':')) else { return false };
    dated
        && !authority.is_empty()
        && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        && !unit.is_empty()
        && !unit.contains(|letter: char| {
            matches!(letter, ',' | ';' | '*' | '&' | '$' | '|') || letter.is_whitespace()
        })
}

fn flocker(judge: &mut Judge, at: &Place<'_>) {
    let (name, uuid) = (at.get("datasetName"), at.get("datasetUUID"));
    if name.is_empty() == uuid.is_empty() {
        judge.invalid(Check::Volume, at, "must have either datasetName or datasetUUID");
    }
    if name.str().contains('/') {
        judge.invalid(Check::Volume, &name, "must not contain `/`");
    }
}

fn quobyte(judge: &mut Judge, at: &Place<'_>) {
    let registry = at.get("registry");
    if registry.is_empty() {
        judge.required(Check::Volume, &registry, "is required for this type of volume");
    } else if at.get("tenant").str().len() >= 65 {
        judge.required(Check::Volume, &at.get("tenant"), "may have at most 64 characters");
    } else if !registry.str().split(',').all(is_host_port) {
        judge.invalid(Check::Volume, &registry, "must be pairs of host:port, separated by commas");
    }
    if at.get("volume").is_empty() {
        judge.required(Check::Volume, &at.get("volume"), "is required for this type of volume");
    }
}

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

fn fibre_channel(judge: &mut Judge, at: &Place<'_>) {
    let (targets, wwids, lun) = (at.get("targetWWNs"), at.get("wwids"), at.get("lun"));
    if targets.is_empty() == wwids.is_empty() {
        judge.required(Check::Volume, &targets, "must have either targetWWNs or wwids");
    }
    if targets.is_empty() {
        return;
    }
    match lun.opt_int() {
        None => {
            judge.required(Check::Volume, &lun, "is required with targetWWNs");
        }
        Some(number) if !(0..=255).contains(&number) => {
            judge.invalid(Check::Volume, &lun, "must be between 0 and 255");
        }
        Some(_) => {}
    }
}

fn flex(judge: &mut Judge, at: &Place<'_>) {
    if at.get("driver").is_empty() {
        judge.required(Check::Volume, &at.get("driver"), "is required for this type of volume");
    }
    for (entry, value) in at.get("options").entries() {
        let domain = entry.key.split('/').next().unwrap_or_default().to_lowercase();
        let dotted = format!(".{domain}");
        if dotted.ends_with(".kubernetes.io") || dotted.ends_with(".k8s.io") {
            judge.invalid(Check::Volume, &value, "the domains kubernetes.io and k8s.io are reserved");
        }
    }
}

fn azure_disk(judge: &mut Judge, at: &Place<'_>) {
    for field in ["diskName", "diskURI"] {
        if at.get(field).is_empty() {
            judge.required(Check::Volume, &at.get(field), "is required for this type of volume");
        }
    }
    judge.one_of(Check::Volume, &at.get("cachingMode"), &["None", "ReadOnly", "ReadWrite"]);
    judge.one_of(Check::Volume, &at.get("kind"), &["Shared", "Dedicated", "Managed"]);
    let managed = at.get("kind").str() == "Managed";
    let prefix = if managed { "/subscriptions/" } else { "https://" };
    if !at.get("diskURI").str().starts_with(prefix) {
        judge.invalid(
            Check::Volume,
            &at.get("diskURI"),
            &format!("must start with `{prefix}` for a disk of this kind"),
        );
    }
}

fn csi(judge: &mut Judge, at: &Place<'_>) {
    let driver = at.get("driver");
    if driver.is_empty() {
        judge.required(Check::Volume, &driver, "is required for this type of volume");
    } else if driver.str().len() > 63 {
        judge.invalid(Check::Volume, &driver, "may have at most 63 characters");
    } else if let Some(wrong) = names::subdomain(&driver.str().to_lowercase()) {
        judge.invalid(Check::Volume, &driver, wrong);
    }
    let secret = at.get("nodePublishSecretRef");
    if secret.is_set() {
        let name = secret.get("name");
        if name.is_empty() {
            judge.required(Check::Volume, &name, "the name is required");
        } else if let Some(wrong) = names::subdomain(name.str()) {
            judge.invalid(Check::Volume, &name, wrong);
        }
    }
}

/// The file source does not ask for the reference: that is a rule of the API server for pods of its own.
fn image(judge: &mut Judge, at: &Place<'_>) {
    let policy = at.get("pullPolicy");
    if policy.is_empty() {
        judge
            .required(Check::Volume, &policy, "is required: this release fills in no default")
            .fix("add pullPolicy: IfNotPresent");
    } else {
        judge.one_of(Check::Volume, &policy, &["Always", "IfNotPresent", "Never"]);
    }
}
