//! The table of checks: what `--ignore` accepts, what SARIF calls rules, what the manual lists.

use crate::manifests::{CheckId, Severity};

/// One check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its number.
    pub id: CheckId,
    /// How much its findings matter, as a rule; a single finding may matter less.
    pub severity: Severity,
    /// What it finds.
    pub title: &'static str,
}

impl Check {
    /// The check with this number.
    pub fn of(id: CheckId) -> Option<&'static Self> {
        CHECKS.iter().find(|check| check.id == id)
    }

    /// The check that is written like this: `SP053`, in any case.
    pub fn named(text: &str) -> Option<&'static Self> {
        CHECKS.iter().find(|check| check.id.to_string().eq_ignore_ascii_case(text))
    }

    /// The heading of the part of the catalogue that it stands in.
    pub fn section(&self) -> &'static str {
        match self.id.number() {
            0..10 => "Path and directory",
            10..30 => "Files",
            30..50 => "Bytes and documents",
            50..60 => "Kind, types and unknown fields",
            60..80 => "Metadata and what is special about static pods",
            80..100 => "Containers, ports, volumes, probes, resources",
            100..120 => "Across files",
            120..140 => "Against the runtime",
            _ => "Against another release (`--upgrade-to`)",
        }
    }
}

const fn error(number: u16, title: &'static str) -> Check {
    Check { id: CheckId::new(number), severity: Severity::Error, title }
}

const fn warning(number: u16, title: &'static str) -> Check {
    Check { id: CheckId::new(number), severity: Severity::Warning, title }
}

const fn info(number: u16, title: &'static str) -> Check {
    Check { id: CheckId::new(number), severity: Severity::Info, title }
}

/// Every check that is made, by number. Gaps are numbers that are kept free, or checks that would guess.
pub const CHECKS: &[Check] = &[
    error(1, "the manifest path does not exist"),
    error(2, "the manifest path is neither a directory nor a regular file"),
    error(3, "the kubelet takes the directory path for a pattern"),
    warning(4, "the manifest path is a single file"),
    warning(5, "this is not the directory that the running kubelet reads"),
    warning(6, "the directory holds no manifest that loads"),
    warning(7, "the directory can be written by others"),
    warning(10, "a backup or temporary file is a live manifest"),
    error(11, "the file is no manifest at all"),
    info(12, "a dotfile is hidden from the kubelet"),
    warning(13, "manifests in a sub-directory are never read"),
    error(14, "a symbolic link points to nothing"),
    warning(15, "a manifest is a symbolic link"),
    error(16, "a FIFO hangs the kubelet's file source"),
    error(17, "a socket or a device is skipped"),
    error(18, "the file is at or over the size limit"),
    error(19, "the file cannot be read"),
    info(20, "the mode or the owner of the file is broader than needed"),
    warning(21, "two names of the directory are one file"),
    error(30, "the file has no object"),
    warning(31, "documents after the first never run"),
    error(32, "the Pod is not in the first document"),
    error(33, "the YAML does not parse"),
    error(34, "the encoding is not accepted"),
    info(35, "byte order mark, UTF-16 or carriage returns"),
    warning(36, "a key is given twice"),
    warning(37, "a blank or a quote is not what it looks like"),
    error(38, "the file starts like JSON and is not JSON"),
    warning(39, "a YAML 1.1 value reads differently from how it looks"),
    info(40, "a merge replaces a key that was given before"),
    error(41, "the YAML directive is not supported"),
    warning(42, "the file is too large to be judged here"),
    error(50, "the object is not a Pod"),
    error(51, "kind or apiVersion is missing or wrong"),
    error(52, "a value has the wrong type"),
    warning(53, "an unknown field is dropped"),
    error(54, "a field is lost because it stands in the wrong place"),
    error(55, "a quantity does not parse"),
    warning(56, "a quantity is hardly what was meant"),
    error(57, "the kubelet never finishes computing a quantity"),
    error(60, "the pod has no name"),
    error(61, "a name, label or annotation is not valid"),
    warning(62, "the name already ends with the node name"),
    error(63, "the manifest is a saved mirror pod"),
    warning(64, "a field that only the API server sets has no effect"),
    warning(65, "the UID is fixed"),
    error(66, "a static pod refers to an API object"),
    error(67, "a field is forbidden for static pods"),
    warning(68, "the priority is incomplete or too low"),
    info(69, "the namespace may not exist"),
    warning(70, "the pod chooses among nodes"),
    warning(71, "runtimeClassName needs the API server"),
    info(72, "a pod that ends does not run again"),
    error(80, "containers, their names and images"),
    warning(81, "the image tag moves"),
    warning(82, "the image is pulled on every start"),
    error(83, "a port is not valid"),
    error(84, "a host port is taken twice in the pod, or differs from the container port"),
    error(85, "a volume or a mount is not valid"),
    warning(86, "a volume without a source becomes an empty directory"),
    warning(87, "the hostPath is missing on this node"),
    warning(88, "a path is relative, or a volume unused"),
    error(89, "a value is not one of the allowed words"),
    error(90, "a probe is not valid"),
    warning(91, "a probe can never succeed"),
    error(92, "resources are not valid"),
    info(93, "a control-plane pod has no probes or no cpu request"),
    warning(94, "an environment variable is given twice"),
    error(95, "any other rule of the kubelet's validation"),
    error(100, "two files define the same pod"),
    error(101, "two files have the same UID"),
    error(102, "two pods want the same host port"),
    info(105, "which file gives which pod"),
    error(120, "nothing runs of a good manifest"),
    error(121, "a static pod runs without a manifest"),
    error(122, "the old version of a rejected manifest still runs"),
    error(123, "other containers or images run than the file says"),
    warning(124, "labels, annotations or settings differ from the file"),
    warning(125, "the file was touched after the pod started"),
    error(126, "two versions of a pod run at once"),
    warning(127, "a pod has several ready sandboxes"),
    error(128, "a container crashes again and again"),
    warning(129, "a container of the manifest was never created"),
    warning(130, "the running pod has another UID than the file"),
    info(131, "the node is called differently"),
    info(132, "a pod has had many sandboxes"),
    info(134, "the running pod was made by a kubelet of another release"),
    error(140, "the new release does not load the file"),
    warning(141, "the new release loads a file that the old one refuses"),
    info(142, "the upgrade restarts the pod"),
    warning(143, "the new release obeys fields that the old one drops"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise() {
        assert!(CHECKS.windows(2).all(|pair| pair[0].id < pair[1].id));
    }

    #[test]
    fn a_check_is_found_by_its_name() {
        assert_eq!(Check::named("sp053").map(|check| check.id), Some(CheckId::new(53)));
        assert_eq!(Check::named("SP999"), None);
    }
}
