//! The flags that select pods: `-n`, `-A` and `-l`, as in kubectl, and `--pod`. A selection changes what is shown, but
//! not which calls are made or what is saved.

use clap::Args;

use crate::manifests::glob;
use crate::manifests::podconfig::Selector;

/// Which pods are shown.
#[derive(Clone, Debug, Default, Args)]
pub struct Selection {
    /// Show only pods of this namespace
    #[arg(short, long)]
    namespace: Option<String>,

    /// Show the pods of all namespaces (the default)
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Show only pods with these labels: `app=web`, `tier!=db`, `env in (a,b)`, `gpu`, `!gpu`, with commas between
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = labels)]
    selector: Option<(String, Selector)>,

    /// Show only pods with this name, NAMESPACE/NAME or UID; `*`, `?` and `[a-z]` work as in a shell
    #[arg(long, value_name = "POD", value_parser = pattern)]
    pod: Option<String>,
}

/// The properties of a pod by which it can be selected.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    /// Returns the value of the label with this key.
    pub label: &'a dyn Fn(&str) -> Option<&'a str>,
}

impl Selection {
    /// Whether this pod is selected.
    pub fn shows(&self, pod: Candidate<'_>) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| pod.namespace == *namespace)
            && self.selector.as_ref().is_none_or(|(_, selector)| selector.matches(|key| (pod.label)(key)))
            && self.pod.as_ref().is_none_or(|pattern| matches_pattern(pod, pattern))
    }

    /// Returns the selected namespace.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Describes the selection, such as `in namespace shop with labels app=web called web-*`.
    pub fn in_words(&self) -> String {
        let parts = [
            self.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")),
            self.selector.as_ref().map(|(text, _)| format!(" with labels {text}")),
            self.pod.as_ref().map(|pod| format!(" called {pod}")),
        ];
        parts.into_iter().flatten().collect()
    }
}

/// Whether the pod has this UID, or its name matches this pattern: `NAME` or `NAMESPACE/NAME`.
fn matches_pattern(pod: Candidate<'_>, wanted: &str) -> bool {
    let matches = |pattern: &str, name: &str| glob::matches(pattern.as_bytes(), name.as_bytes());
    match wanted.split_once('/') {
        Some((namespace, name)) => matches(namespace, pod.namespace) && matches(name, pod.name),
        None => pod.uid == wanted || pod.name == wanted || matches(wanted, pod.name),
    }
}

/// Parses a label selector. Also returns its text, for messages.
fn labels(text: &str) -> Result<(String, Selector), String> {
    Ok((text.to_owned(), text.parse()?))
}

/// Returns a pattern for names, unless it is incomplete and so matches nothing.
fn pattern(text: &str) -> Result<String, String> {
    if glob::is_complete(text.as_bytes()) {
        Ok(text.to_owned())
    } else {
        Err("it is not a complete pattern: each `[` needs its `]`, and `\\` a character after it".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::Labels;

    fn shown(selection: &Selection, name: &str, labels: &[(&str, &str)]) -> bool {
        let labels: Labels = labels.iter().copied().collect();
        selection.shows(Candidate { namespace: "shop", name, uid: "uid-1", label: &|key| labels.get(key) })
    }

    #[test]
    fn a_selector_matches_the_pods_labels_and_a_pod_without_labels() {
        let of = |text: &str| Selection { selector: Some(labels(text).unwrap()), ..Selection::default() };
        let web = [("app", "web"), ("tier", "front")];
        assert!(shown(&of("app=web,tier notin (db)"), "web-0", &web) && shown(&of("!app"), "web-0", &[]));
        assert!(!shown(&of("app=web,tier=db"), "web-0", &web) && !shown(&of("app"), "web-0", &[]));
        assert_eq!(of("app=web").in_words(), " with labels app=web");
        assert!(labels("app in (web").is_err());
    }

    #[test]
    fn a_pod_is_selected_by_name_by_uid_or_by_a_pattern() {
        let pod = |pod: &str| Selection { pod: Some(pod.to_owned()), ..Selection::default() };
        for fitting in ["web-0", "uid-1", "web-*", "web-[0-9]", "shop/web-?", "*/web-0", "*"] {
            assert!(shown(&pod(fitting), "web-0", &[]), "{fitting}");
        }
        for other in ["web", "web-1", "uid-*", "other/web-0", "Web-0"] {
            assert!(!shown(&pod(other), "web-0", &[]), "{other}");
        }
    }
}
