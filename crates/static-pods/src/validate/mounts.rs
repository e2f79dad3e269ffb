//! Validates volume mounts and volume devices.

use std::collections::HashSet;

use super::validator::Validator;
use crate::Check;
use crate::pod_field::PodField;

use super::names;
use super::pod_context::PodContext;

/// The message about a name for which the pod has no volume.
const NO_VOLUME: &str = "the pod has no volume with this name, or the volume is not valid";

/// Validates the mounts of one container.
pub fn validate(validator: &mut Validator, pod: &PodContext<'_>, container: &PodField<'_>) {
    let devices = container.get("volumeDevices").items();
    let mut paths = HashSet::new();
    for mount in container.get("volumeMounts").items() {
        let name = mount.get("name");
        known_volume(validator, pod, &name);
        let path = mount.get("mountPath");
        validator.not_empty(Check::Volume, &path, "a mount needs a path");
        if !paths.insert(path.str()) {
            validator.invalid(Check::Volume, &path, "must be unique in the container");
        }
        if devices.iter().any(|device| device.get("name").str() == name.str()) {
            validator.invalid(Check::Volume, &name, "is already used by a volume device");
        }
        if devices.iter().any(|device| device.get("devicePath").str() == path.str()) {
            validator.invalid(Check::Volume, &path, "is already the path of a volume device");
        }
        sub_paths(validator, &mount);
        propagation(validator, &mount, container);
        recursive_read_only(validator, &mount);
        image_sub_path(validator, pod, &mount);
    }
}

/// Validates that the volume exists. An invalid volume counts as missing.
fn known_volume(validator: &mut Validator, pod: &PodContext<'_>, name: &PodField<'_>) {
    validator.not_empty(Check::Volume, name, "the name of the volume is required");
    if !pod.volumes.contains_key(name.str()) {
        validator.not_found(Check::Volume, name, NO_VOLUME);
        validator.fix("add the volume to spec.volumes, or correct the name");
    }
}

/// Returns a field of a mount, with the path that the kubelet reports: the list of mounts and the field, without the
/// mount's index.
fn field_of_list<'a>(mount: &PodField<'a>, field: &str) -> PodField<'a> {
    let list = mount.path().rsplit_once('[').map_or(mount.path(), |(list, _)| list);
    mount.get(field).called(format!("{list}.{field}"))
}

fn sub_paths(validator: &mut Validator, mount: &PodField<'_>) {
    let (path, expression) = (mount.get("subPath"), mount.get("subPathExpr"));
    for at in [&path, &expression] {
        validator.optional_text(Check::Volume, at, names::descending_path);
    }
    if !path.is_empty() && !expression.is_empty() {
        validator.invalid(Check::Volume, &expression, "may not be combined with subPath");
    }
}

fn propagation(validator: &mut Validator, mount: &PodField<'_>, container: &PodField<'_>) {
    let mode = field_of_list(mount, "mountPropagation");
    if !mode.is_set() {
        return;
    }
    validator.one_of(Check::NotAllowedValue, &mode, &["Bidirectional", "HostToContainer", "None"]);
    if mode.str() == "Bidirectional" && !container.get("securityContext").get("privileged").is_true() {
        validator.forbidden(Check::Volume, &mode, "is allowed only for privileged containers");
    }
}

fn recursive_read_only(validator: &mut Validator, mount: &PodField<'_>) {
    let mode = field_of_list(mount, "recursiveReadOnly");
    if !mode.is_set() {
        return;
    }
    if !validator.one_of(Check::NotAllowedValue, &mode, &["Disabled", "Enabled", "IfPossible"])
        || mode.str() == "Disabled"
    {
        return;
    }
    if !mount.get("readOnly").is_true() {
        validator.forbidden(Check::Volume, &mode, "may be set only if readOnly is true");
    }
    let propagation = mount.get("mountPropagation");
    if propagation.is_set() && propagation.str() != "None" {
        validator.forbidden(Check::Volume, &mode, "may be set only if mountPropagation is None or absent");
    }
}

/// Validates the sub-path of an image volume, which is allowed from 1.33 on.
fn image_sub_path(validator: &mut Validator, pod: &PodContext<'_>, mount: &PodField<'_>) {
    if validator.version.at_least(33) {
        return;
    }
    let is_image =
        pod.volumes.get(mount.get("name").str()).is_some_and(|volume| volume.get("image").is_set());
    for field in ["subPath", "subPathExpr"] {
        if is_image && !mount.get(field).is_empty() {
            validator.invalid(Check::Volume, &mount.get(field), "is not allowed for image volumes");
        }
    }
}

/// Validates the volume devices of one container.
pub fn devices(validator: &mut Validator, pod: &PodContext<'_>, container: &PodField<'_>) {
    let mounts = container.get("volumeMounts").items();
    let mut seen_names = HashSet::new();
    let mut seen_paths = HashSet::new();
    for device in container.get("volumeDevices").items() {
        let (name, path) = (device.get("name"), device.get("devicePath"));
        validator.not_empty(Check::Volume, &name, "the name of the volume is required");
        validator.not_empty(Check::Volume, &path, "a device needs a path");
        if !seen_names.insert(name.str()) {
            validator.invalid(Check::Volume, &name, "must be unique in the container");
        }
        if !path.is_empty() {
            validator.text(Check::Volume, &path, names::no_backsteps);
            if !seen_paths.insert(path.str()) {
                validator.invalid(Check::Volume, &path, "must be unique in the container");
            }
        }
        match pod.volumes.get(name.str()) {
            None => validator.not_found(Check::Volume, &name, NO_VOLUME),
            Some(volume)
                if !volume.get("persistentVolumeClaim").is_set() && !volume.get("ephemeral").is_set() =>
            {
                validator.invalid(
                    Check::Volume,
                    &name,
                    "a device needs a volume of type persistentVolumeClaim or ephemeral",
                );
            }
            Some(_) => {}
        }
        if mounts.iter().any(|mount| mount.get("name").str() == name.str()) {
            validator.invalid(Check::Volume, &name, "is already mounted");
        }
        if mounts.iter().any(|mount| mount.get("mountPath").str() == path.str()) {
            validator.invalid(Check::Volume, &path, "is already a mount path");
        }
    }
}
