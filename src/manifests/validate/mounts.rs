//! Volume mounts and volume devices.

use std::collections::HashSet;

use super::judge::{Judge, Objection};
use crate::manifests::Check;
use crate::manifests::place::Place;

use super::names;
use super::pod::Pod;

/// Judges the mounts of one container.
pub fn validate(judge: &mut Judge, pod: &Pod<'_>, container: &Place<'_>) {
    let devices = container.get("volumeDevices").items();
    let mut paths = HashSet::new();
    for mount in container.get("volumeMounts").items() {
        let name = mount.get("name");
        known_volume(judge, pod, &name);
        let path = mount.get("mountPath");
        if path.is_empty() {
            judge.required(Check::Volume, &path, "a mount needs a path");
        }
        if !paths.insert(path.str()) {
            judge.invalid(Check::Volume, &path, "must be unique in the container");
        }
        if devices.iter().any(|device| device.get("name").str() == name.str()) {
            judge.invalid(Check::Volume, &name, "is already used by a volume device");
        }
        if devices.iter().any(|device| device.get("devicePath").str() == path.str()) {
            judge.invalid(Check::Volume, &path, "is already the path of a volume device");
        }
        sub_paths(judge, &mount);
        propagation(judge, &mount, container);
        recursive_read_only(judge, &mount);
        image_sub_path(judge, pod, &mount);
    }
}

/// A volume that is itself wrong counts as missing.
fn known_volume(judge: &mut Judge, pod: &Pod<'_>, name: &Place<'_>) {
    if name.is_empty() {
        judge.required(Check::Volume, name, "the name of the volume is required");
    }
    if !pod.volumes.contains_key(name.str()) {
        judge.object(Check::Volume, name, Objection::NotFound, "there is no such volume, or it is not valid");
        judge.fix("add the volume to spec.volumes, or correct the name");
    }
}

/// Of some fields the kubelet does not say in which mount they stand.
fn listwise<'a>(mount: &Place<'a>, field: &str) -> Place<'a> {
    let list = mount.path().rsplit_once('[').map_or(mount.path(), |(list, _)| list);
    mount.get(field).called(format!("{list}.{field}"))
}

fn sub_paths(judge: &mut Judge, mount: &Place<'_>) {
    let (path, expression) = (mount.get("subPath"), mount.get("subPathExpr"));
    for at in [&path, &expression] {
        if let (false, Some(wrong)) = (at.is_empty(), names::descending_path(at.str())) {
            judge.invalid(Check::Volume, at, wrong);
        }
    }
    if !path.is_empty() && !expression.is_empty() {
        judge.invalid(Check::Volume, &expression, "may not stand beside subPath");
    }
}

fn propagation(judge: &mut Judge, mount: &Place<'_>, container: &Place<'_>) {
    let mode = listwise(mount, "mountPropagation");
    if !mode.is_set() {
        return;
    }
    judge.one_of(Check::NotAllowedWord, &mode, &["Bidirectional", "HostToContainer", "None"]);
    if mode.str() == "Bidirectional" && !container.get("securityContext").get("privileged").is_true() {
        judge.forbidden(Check::Volume, &mode, "is available to privileged containers only");
    }
}

fn recursive_read_only(judge: &mut Judge, mount: &Place<'_>) {
    let mode = listwise(mount, "recursiveReadOnly");
    if !mode.is_set() {
        return;
    }
    if !judge.one_of(Check::NotAllowedWord, &mode, &["Disabled", "Enabled", "IfPossible"])
        || mode.str() == "Disabled"
    {
        return;
    }
    if !mount.get("readOnly").is_true() {
        judge.forbidden(Check::Volume, &mode, "may be given only where readOnly is true");
    }
    let propagation = mount.get("mountPropagation");
    if propagation.is_set() && propagation.str() != "None" {
        judge.forbidden(Check::Volume, &mode, "may be given only where mountPropagation is None or absent");
    }
}

/// Image volumes took no sub-path before 1.33.
fn image_sub_path(judge: &mut Judge, pod: &Pod<'_>, mount: &Place<'_>) {
    if judge.version.at_least(33) {
        return;
    }
    let image = pod.volumes.get(mount.get("name").str()).is_some_and(|volume| volume.get("image").is_set());
    for field in ["subPath", "subPathExpr"] {
        if image && !mount.get(field).is_empty() {
            judge.invalid(Check::Volume, &mount.get(field), "is not allowed for image volumes");
        }
    }
}

/// Judges the volume devices of one container.
pub fn devices(judge: &mut Judge, pod: &Pod<'_>, container: &Place<'_>) {
    let mounts = container.get("volumeMounts").items();
    let mut seen_names = HashSet::new();
    let mut seen_paths = HashSet::new();
    for device in container.get("volumeDevices").items() {
        let (name, path) = (device.get("name"), device.get("devicePath"));
        if name.is_empty() {
            judge.required(Check::Volume, &name, "the name of the volume is required");
        }
        if path.is_empty() {
            judge.required(Check::Volume, &path, "a device needs a path");
        }
        if !seen_names.insert(name.str()) {
            judge.invalid(Check::Volume, &name, "must be unique in the container");
        }
        if !path.is_empty() {
            if let Some(wrong) = names::no_backsteps(path.str()) {
                judge.invalid(Check::Volume, &path, wrong);
            }
            if !seen_paths.insert(path.str()) {
                judge.invalid(Check::Volume, &path, "must be unique in the container");
            }
        }
        match pod.volumes.get(name.str()) {
            None => {
                judge.object(
                    Check::Volume,
                    &name,
                    Objection::NotFound,
                    "there is no such volume, or it is not valid",
                );
            }
            Some(volume)
                if !volume.get("persistentVolumeClaim").is_set() && !volume.get("ephemeral").is_set() =>
            {
                judge.invalid(
                    Check::Volume,
                    &name,
                    "a device needs a volume of type persistentVolumeClaim or ephemeral",
                );
            }
            Some(_) => {}
        }
        if mounts.iter().any(|mount| mount.get("name").str() == name.str()) {
            judge.invalid(Check::Volume, &name, "is already mounted");
        }
        if mounts.iter().any(|mount| mount.get("mountPath").str() == path.str()) {
            judge.invalid(Check::Volume, &path, "is already a mount path");
        }
    }
}
