//! Recognises the settings of an `OpenShift` node, whose kubelet knows feature gates that no other kubelet has.

use super::tables::Tables;
use super::{ConfigFile, StartSettings};

/// The certificate authority with which `OpenShift`'s kubelets verify their callers.
const OPENSHIFT_AUTHORITY: &str = "/etc/kubernetes/kubelet-ca.crt";

/// Whether the settings contain names that only `OpenShift` uses.
pub fn is_of_openshift(settings: &StartSettings) -> bool {
    let has_openshift_name = |file: &ConfigFile| {
        let text = String::from_utf8_lossy(file.content.as_deref().unwrap_or_default()).into_owned();
        text.contains(OPENSHIFT_AUTHORITY)
            || text.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_gate_of_openshift)
    };
    let in_arguments = settings.arguments.iter().any(|argument| {
        argument.contains("openshift")
            || argument.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_gate_of_openshift)
    });
    in_arguments || settings.files.iter().any(has_openshift_name)
}

/// Whether a gate's name shows that the configuration is `OpenShift`'s.
fn is_gate_of_openshift(name: &str) -> bool {
    Tables::get().is_gate_of_openshift(name) && Tables::get().gate(name).is_none()
}

#[cfg(test)]
mod tests {
    use super::is_gate_of_openshift;

    #[test]
    fn a_gate_of_kubernetes_does_not_show_openshift() {
        assert!(is_gate_of_openshift("VSphereStaticIPs") && !is_gate_of_openshift("KMSv1"));
    }
}
