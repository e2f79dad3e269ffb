//! Which pods are shown: `-n`, `-A`, `-l` and `--pod`, in kubectl's words.
//!
//! They change what is shown, never what is asked or saved.

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::complete;
use crate::cri::Labels;
use crate::manifests::glob;

/// Which pods are shown.
#[derive(Clone, Debug, Default, Args)]
pub struct Selection {
    /// Show only pods of this namespace
    #[arg(short, long, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: Option<String>,

    /// Show the pods of all namespaces, as is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Show only pods with these labels: `app=web`, `tier!=db`, `env in (a,b)`, `gpu`, `!gpu`, with commas between
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = Selector::parse)]
    selector: Option<Selector>,

    /// Show only the pod with this name, NAMESPACE/NAME or UID; `*`, `?` and `[a-z]` stand for what they do in a shell
    #[arg(long, value_name = "POD", add = ArgValueCompleter::new(complete::pods))]
    pod: Option<String>,
}

/// What a selection looks at.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// UID.
    pub uid: &'a str,
    /// The pod's labels.
    pub labels: &'a Labels,
}

impl Selection {
    /// Whether this pod is to be shown.
    pub fn shows(&self, pod: Candidate<'_>) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| pod.namespace == *namespace)
            && self.selector.as_ref().is_none_or(|selector| selector.fits(pod.labels))
            && self.pod.as_ref().is_none_or(|wanted| is_called(pod, wanted))
    }

    /// `in namespace shop with labels app=web called web-*`, for whoever is told that there is none.
    pub fn in_words(&self) -> String {
        let parts = [
            self.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")),
            self.selector.as_ref().map(|selector| format!(" with labels {}", selector.text)),
            self.pod.as_ref().map(|pod| format!(" called {pod}")),
        ];
        parts.into_iter().flatten().collect()
    }
}

fn is_called(pod: Candidate<'_>, wanted: &str) -> bool {
    let matches = |pattern: &str, name: &str| glob::matches(pattern.as_bytes(), name.as_bytes());
    match wanted.split_once('/') {
        Some((namespace, name)) => matches(namespace, pod.namespace) && matches(name, pod.name),
        None => pod.uid == wanted || pod.name == wanted || matches(wanted, pod.name),
    }
}

/// A label selector, as kubectl's `-l` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    text: String,
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    wants: Wants,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wants {
    /// The label is there.
    Present,
    /// The label is not there.
    Absent,
    /// Its value is one of these.
    OneOf(Vec<String>),
    /// Its value is none of these, or it is not there.
    NoneOf(Vec<String>),
}

impl Selector {
    fn parse(text: &str) -> Result<Self, String> {
        let requirements: Vec<Requirement> =
            terms(text)?.into_iter().map(Requirement::parse).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), requirements })
    }

    fn fits(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.wants {
                Wants::Present => value.is_some(),
                Wants::Absent => value.is_none(),
                Wants::OneOf(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
                Wants::NoneOf(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            }
        })
    }
}

/// What stands between the commas that are in no brackets.
fn terms(text: &str) -> Result<Vec<&str>, String> {
    let (mut terms, mut rest) = (Vec::new(), text);
    loop {
        let end = rest.find([',', '(']).unwrap_or(rest.len());
        let end = match rest.get(end..).filter(|left| left.starts_with('(')) {
            Some(left) => end + left.find(')').ok_or_else(|| format!("`{text}` has no `)`"))? + 1,
            None => end,
        };
        let (term, left) = rest.split_at(end);
        let term = term.trim();
        if term.is_empty() {
            return Err("a label is missing".to_owned());
        }
        terms.push(term);
        match left.trim_start() {
            "" => return Ok(terms),
            more => {
                rest = more.strip_prefix(',').ok_or_else(|| format!("there is no comma before `{more}`"))?;
            }
        }
    }
}

impl Requirement {
    fn parse(term: &str) -> Result<Self, String> {
        if let Some((words, values)) = term.strip_suffix(')').and_then(|term| term.split_once('(')) {
            let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
            let mut words = words.split_whitespace();
            let wants = match (words.next(), words.next(), words.next()) {
                (Some(key), Some("in"), None) => (key, Wants::OneOf(values)),
                (Some(key), Some("notin"), None) => (key, Wants::NoneOf(values)),
                _ => return Err(format!("write `{term}` as KEY in (A,B) or KEY notin (A,B)")),
            };
            return Self::of(term, wants.0, wants.1);
        }
        let one = |value: &str| vec![value.trim().to_owned()];
        let parts = ["!=", "==", "="].into_iter().find_map(|sign| Some((sign, term.split_once(sign)?)));
        match parts {
            Some(("!=", (key, value))) => Self::of(term, key, Wants::NoneOf(one(value))),
            Some((_, (key, value))) => Self::of(term, key, Wants::OneOf(one(value))),
            None => match term.strip_prefix('!') {
                Some(key) => Self::of(term, key, Wants::Absent),
                None => Self::of(term, term, Wants::Present),
            },
        }
    }

    fn of(term: &str, key: &str, wants: Wants) -> Result<Self, String> {
        let key = key.trim();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        if key.is_empty() || !key.bytes().all(plain) {
            return Err(format!("`{term}` does not begin with the key of a label"));
        }
        let values = match &wants {
            Wants::OneOf(values) | Wants::NoneOf(values) => values.as_slice(),
            Wants::Present | Wants::Absent => &[],
        };
        if let Some(value) =
            values.iter().find(|value| !value.bytes().all(|byte| plain(byte) && byte != b'/'))
        {
            return Err(format!("`{value}` is no value of a label"));
        }
        Ok(Self { key: key.to_owned(), wants })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(selection: &Selection, name: &str, labels: &[(&str, &str)]) -> bool {
        let labels: Labels = labels.iter().copied().collect();
        selection.shows(Candidate { namespace: "shop", name, uid: "uid-1", labels: &labels })
    }

    fn fits(selector: &str, labels: &[(&str, &str)]) -> bool {
        let selector = Some(Selector::parse(selector).unwrap());
        shown(&Selection { selector, ..Selection::default() }, "web-0", labels)
    }

    #[test]
    fn selectors_are_kubectls() {
        let web = [("app", "web"), ("tier", "front")];
        for fitting in [
            "app=web",
            "app==web",
            "app = web, tier=front",
            "tier!=db",
            "gpu!=yes",
            "app",
            "!gpu",
            "app in (web, db)",
            "app notin (db),tier",
            "gpu notin (yes)",
        ] {
            assert!(fits(fitting, &web), "{fitting}");
        }
        for other in
            ["app=db", "app!=web", "gpu", "!app", "app in (db)", "app notin (web,db)", "app=web,tier=db"]
        {
            assert!(!fits(other, &web), "{other}");
        }
    }

    #[test]
    fn what_is_no_selector_is_told() {
        for bad in
            ["", ",", "a=b,", "=b", "a in (b", "a in b)", "a among (b)", "a in (b) c", "a=b c", "!", "a=b/c"]
        {
            assert!(Selector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pod_is_called_by_name_by_uid_or_by_a_pattern() {
        let pod = |pod: &str| Selection { pod: Some(pod.to_owned()), ..Selection::default() };
        for fitting in ["web-0", "uid-1", "web-*", "web-[0-9]", "shop/web-?", "*/web-0", "*"] {
            assert!(shown(&pod(fitting), "web-0", &[]), "{fitting}");
        }
        for other in ["web", "web-1", "uid-*", "other/web-0", "Web-0"] {
            assert!(!shown(&pod(other), "web-0", &[]), "{other}");
        }
    }
}
