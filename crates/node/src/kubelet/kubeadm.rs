//! Finds the settings of a kubelet that does not run, from the files with which kubeadm configures it, or else from its
//! systemd unit.

use std::path::Path;

use super::KubeletSettings;
use super::unit::unit_settings;
use crate::host::{HostRoot, shell_words};
use plegctl_base::report::load::load;

/// The largest environment file that is read.
const LARGEST_FILE: usize = 64 << 10;

/// Where packages install kubeadm's drop-in file for the kubelet's systemd unit.
const UNITS: [&str; 3] = [
    "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
];

/// The arguments that kubeadm's unit always has.
const ARGUMENTS: [&str; 4] = [
    "kubelet",
    "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
    "--kubeconfig=/etc/kubernetes/kubelet.conf",
    "--config=/var/lib/kubelet/config.yaml",
];

/// The variables with further arguments, in the unit's order, and the files that set them.
const VARIABLES: [(&str, &[&str]); 2] = [
    ("KUBELET_KUBEADM_ARGS", &["/var/lib/kubelet/kubeadm-flags.env"]),
    ("KUBELET_EXTRA_ARGS", &["/etc/default/kubelet", "/etc/sysconfig/kubelet"]),
];

/// Reads the settings of a kubelet that does not run. Returns also where they are. `None` if neither kubeadm nor a unit
/// has set up a kubelet on this node.
pub fn stopped_settings(host: &HostRoot) -> Option<(KubeletSettings, String)> {
    kubeadm_settings(host).map(|settings| (settings, "kubeadm's files".to_owned())).or_else(|| {
        let (settings, unit) = unit_settings(host)?;
        Some((settings, format!("the unit {unit}")))
    })
}

/// Reads the settings that kubeadm's unit gives to the kubelet; `None` if the node has no such unit.
fn kubeadm_settings(host: &HostRoot) -> Option<KubeletSettings> {
    UNITS.iter().find(|unit| host.path(unit).is_file())?;
    let mut arguments: Vec<String> = ARGUMENTS.map(str::to_owned).to_vec();
    for (variable, files) in VARIABLES {
        for file in files {
            let text = load(&host.path(file), LARGEST_FILE).unwrap_or_default();
            arguments.extend(arguments_in(&String::from_utf8_lossy(&text), variable));
        }
    }
    Some(KubeletSettings::read(arguments.into_iter().collect(), Some(Path::new("/")), host))
}

/// Returns the arguments in a variable of an environment file.
fn arguments_in(text: &str, variable: &str) -> Vec<String> {
    let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(variable)?.strip_prefix('='));
    let value = values.next_back().unwrap_or_default();
    // systemd removes the quotes of the value. The unit then splits the value at blanks.
    shell_words(value).iter().flat_map(|value| shell_words(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_split_into_arguments_as_systemd_does() {
        let text = "# none\nKUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///r.sock --v=2\"\n";
        let arguments = arguments_in(text, "KUBELET_KUBEADM_ARGS");
        assert_eq!(arguments, ["--container-runtime-endpoint=unix:///r.sock", "--v=2"]);
        assert_eq!(arguments_in("KUBELET_EXTRA_ARGS=\n", "KUBELET_EXTRA_ARGS"), [""; 0]);
        assert_eq!(arguments_in("KUBELET_EXTRA_ARGS=--v=4\n", "KUBELET_EXTRA_ARGS"), ["--v=4"]);
    }
}
