//! A capture for strangers: every name is replaced by another, the same by the same, and every text that is not one of
//! ours is replaced by its length.
//!
//! Ids and UIDs, states, attempts, numbers and times stay, because PLEG lives on them. Which keys, words and phrases stay
//! is a closed list: [`super::phrases`].

use std::collections::{BTreeSet, HashMap};

use prost::bytes::Bytes;
use serde_json::{Map, Value};

use super::entry::{Body, Entry};
use super::phrases::{self, KEYS, Places, phrase, without};
use super::recent::Recent;
use crate::cri::{Rpc, rename};
use crate::report::fits_in_memory;

/// What a name is the name of. Names of two kinds are two names, even where they are the same word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Node,
    Namespace,
    Pod,
    Container,
    Image,
    Key,
    Value,
    Address,
    Path,
    Id,
    Runtime,
}

impl Kind {
    /// What its replacements begin with.
    const fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Namespace => "namespace",
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Image => "image",
            Self::Key => "example.com/label",
            Self::Value => "value",
            Self::Address => "address",
            Self::Path => "/path",
            Self::Id => "id",
            Self::Runtime => "runtime",
        }
    }
}

/// Names and their replacements.
#[derive(Debug, Default)]
pub struct Names {
    known: HashMap<Kind, HashMap<String, String>>,
    /// Ids that stay as they are.
    ids: BTreeSet<String>,
    /// Answers that were renamed lately.
    renamed: Recent<Rpc, Option<Bytes>>,
}

/// Whether this is an id as runtimes and kubelets draw them.
fn is_id(text: &str) -> bool {
    text.len() >= 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

impl Names {
    /// How many were replaced.
    pub fn count(&self) -> usize {
        self.known.values().map(HashMap::len).sum()
    }

    /// The replacement for `name`.
    fn alias(&mut self, kind: Kind, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let known = self.known.entry(kind).or_default();
        if let Some(alias) = known.get(name) {
            return alias.clone();
        }
        let alias = format!("{}-{}", kind.word(), known.len() + 1);
        known.insert(name.to_owned(), alias.clone());
        alias
    }

    fn known(&self, kind: Kind, name: &str) -> Option<&String> {
        self.known.get(&kind)?.get(name)
    }

    /// The replacement for an id, which is the id itself where it says nothing.
    fn own_id(&mut self, id: &str) -> String {
        if is_id(id) {
            if !self.ids.contains(id) {
                self.ids.insert(id.to_owned());
            }
            return id.to_owned();
        }
        self.alias(Kind::Id, id)
    }

    /// Learns the name of the node.
    pub fn node(&mut self, name: &str) {
        self.alias(Kind::Node, name);
    }

    /// The replacement for a part of a message of the CRI.
    fn part(&mut self, kind: rename::NameKind, text: &str) -> String {
        let kept = |is_known: bool, text: &str| if is_known { text.to_owned() } else { without(text) };
        match kind {
            rename::NameKind::Id => self.own_id(text),
            rename::NameKind::Fact if phrases::is_fact(text) => text.to_owned(),
            rename::NameKind::Reason => kept(phrases::is_reason(text), text),
            rename::NameKind::Condition => kept(phrases::is_condition(text), text),
            rename::NameKind::Version => phrases::version(text).to_owned(),
            rename::NameKind::Runtime => self.runtime(text),
            rename::NameKind::Namespace => self.alias(Kind::Namespace, text),
            rename::NameKind::Pod => self.alias(Kind::Pod, text),
            rename::NameKind::Container => self.alias(Kind::Container, text),
            rename::NameKind::Image => self.alias(Kind::Image, text),
            rename::NameKind::Key => self.alias(Kind::Key, text),
            rename::NameKind::Value | rename::NameKind::Fact => self.alias(Kind::Value, text),
            rename::NameKind::Address => self.alias(Kind::Address, text),
            rename::NameKind::Path => self.alias(Kind::Path, text),
        }
    }

    fn runtime(&mut self, name: &str) -> String {
        if phrases::is_program(name) { name.to_owned() } else { self.alias(Kind::Runtime, name) }
    }

    /// An answer with other names, each of which is learned; `None` if it cannot be read.
    pub fn answer(&mut self, rpc: Rpc, message: &Bytes) -> Option<Bytes> {
        if let Some(renamed) = self.renamed.get(rpc, message) {
            return renamed.clone();
        }
        let renamed = rename::answer(rpc, message, &mut |kind, text| self.part(kind, text));
        let size = renamed.as_ref().map_or(0, Bytes::len);
        self.renamed.put(rpc, message.clone(), renamed.clone(), size);
        renamed
    }

    /// Replaces the names and texts of an entry; `of` is the RPC of a call that ends.
    pub fn entry(&mut self, entry: &mut Entry, of: Option<Rpc>) {
        match &mut entry.body {
            Some(Body::Session(session)) => {
                session.release = phrases::version(&session.release).to_owned();
                session.node = self.alias(Kind::Node, &session.node);
                session.endpoint = self.endpoint(&session.endpoint);
                session.runtime = self.runtime(&session.runtime);
                session.runtime_version = phrases::version(&session.runtime_version).to_owned();
                session.kubelet = phrases::version(&session.kubelet).to_owned();
            }
            Some(Body::Asked(asked)) => {
                let rpc = super::entry::rpc(asked.rpc);
                let renamed = rpc.and_then(|rpc| {
                    rename::request(rpc, &asked.request, &mut |kind, text| self.part(kind, text))
                });
                asked.request = renamed.unwrap_or_default();
            }
            Some(Body::Ended(ended)) => {
                ended.message = phrase(&ended.message, self);
                for answer in &mut ended.answers {
                    // An answer that cannot be read cannot be searched for names either.
                    let renamed = of.and_then(|rpc| self.answer(rpc, &answer.bytes));
                    ended.omitted |= renamed.is_none();
                    answer.bytes = renamed.unwrap_or_default();
                }
                if ended.omitted {
                    ended.answers.clear();
                }
            }
            Some(Body::Told(told)) => {
                let renamed = self.answer(Rpc::GetContainerEvents, &told.answer.bytes);
                told.answer.bytes = renamed.unwrap_or_default();
            }
            Some(Body::Relist(relist)) => relist.error = phrase(&relist.error, self),
            Some(Body::Document(document)) => document.text = self.document(&document.text),
            Some(Body::Incident(incident)) => {
                incident.why = phrase(&incident.why, self);
                incident.verdict = self.string("verdict", "", &incident.verdict);
                incident.summary = phrase(&incident.summary, self);
                if !incident.primary.is_empty() {
                    let primary = self.document(incident.primary.as_bytes());
                    incident.primary = String::from_utf8_lossy(&primary).into_owned();
                }
            }
            Some(Body::Lost(lost)) => lost.why = phrase(&lost.why, self),
            Some(Body::Stopped(stopped)) => stopped.why = phrase(&stopped.why, self),
            Some(Body::Jump(_)) | None => {}
        }
    }

    /// A document with other names; what is no document is nothing.
    fn document(&mut self, text: &[u8]) -> Bytes {
        // What is too heavy is not read, and nothing of it stays.
        let text = if fits_in_memory(text) { text } else { b"" };
        match serde_json::from_slice::<Value>(text) {
            Ok(value) => self.value("", "", value).to_string().into(),
            Err(_) => Bytes::from_static(b"null"),
        }
    }

    /// The replacement for what is under `key` in what is under `of`.
    fn value(&mut self, key: &str, of: &str, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.string(key, of, &text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(key, of, item)).collect(),
            Value::Object(members) => {
                let known = members.into_iter().filter(|(inner, _)| KEYS.contains(&inner.as_str()));
                let mut kept = Map::new();
                for (inner, value) in known {
                    let value = self.value(&inner, key, value);
                    kept.insert(inner, value);
                }
                Value::Object(kept)
            }
            other => other,
        }
    }

    fn string(&mut self, key: &str, of: &str, text: &str) -> String {
        match key {
            "namespace" => self.alias(Kind::Namespace, text),
            "node" => self.alias(Kind::Node, text),
            "pod" => self.alias(Kind::Pod, text),
            "name" if of == "pod" => self.alias(Kind::Pod, text),
            "name" if of == "runtime" => self.runtime(text),
            "name" if matches!(of, "probes" | "processes" | "stoppedShims") => {
                if phrases::is_program(text) {
                    text.to_owned()
                } else {
                    phrase(text, self)
                }
            }
            "container" | "name" => self.alias(Kind::Container, text),
            "id" | "ids" | "uid" if !phrases::is_rule(text) => self.own_id(text),
            "endpoint" => self.endpoint(text),
            "version" => phrases::version(text).to_owned(),
            "reason" if phrases::is_reason(text) => text.to_owned(),
            // Of a kubelet's metrics.
            "text" => phrases::series(text),
            _ if phrases::is_word(text) => text.to_owned(),
            _ => phrase(text, self),
        }
    }
}

impl Places for Names {
    fn pod(&self, text: &str) -> Option<String> {
        let mut parts = text.split('/');
        let alias = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(one), None, ..) => {
                let kinds = [Kind::Container, Kind::Pod, Kind::Namespace, Kind::Node];
                let of_id = one.strip_prefix("pod ").and_then(|id| Some(format!("pod {}", self.id(id)?)));
                kinds.into_iter().find_map(|kind| self.known(kind, one)).cloned().or(of_id)?
            }
            (Some(namespace), Some(pod), container, None) => {
                let namespace = self.known(Kind::Namespace, namespace)?;
                let pod = self.known(Kind::Pod, pod)?;
                match container {
                    Some(container) => {
                        format!("{namespace}/{pod}/{}", self.known(Kind::Container, container)?)
                    }
                    None => format!("{namespace}/{pod}"),
                }
            }
            _ => return None,
        };
        Some(alias)
    }

    fn id(&self, text: &str) -> Option<String> {
        let known = self.known(Kind::Id, text).cloned();
        // Texts have the first twelve or thirteen digits of an id.
        let begins = || self.ids.range(text.to_owned()..).next().is_some_and(|id| id.starts_with(text));
        known.or_else(|| (is_id(text) && begins()).then(|| text.to_owned()))
    }

    fn endpoint(&self, text: &str) -> String {
        if text.is_empty() || phrases::is_endpoint(text) {
            text.to_owned()
        } else {
            "unix:///endpoint".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use serde_json::json;

    use super::*;
    use crate::capture::entry::{
        Answer, Asked, Document, Ended, Incident, Jump, Lost, LostEnd, RelistDone, Session, Stopped, Told,
        rpc_number,
    };

    /// What must be in no export, each in the shape of something that stays.
    const SECRETS: [&str; 10] = [
        "hunter2",
        "nfs.example.com:/export/anna",
        "10.1.2.3",
        "fe80::1:2:3",
        "anna@example.com",
        "/home/anna/.kube/config",
        "registry.example.com:5000/anna/app:v1.2",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm5hIn0.c2ln",
        "ListContainers of anna/hunter2",
        "v1.34.2-anna",
    ];

    /// An entry of every kind with a secret in each of its fields. A field that is added has to be added here.
    fn entries(secret: &str) -> Vec<Entry> {
        let text = || secret.to_owned();
        let bytes = || Bytes::from(secret.to_owned());
        let answer =
            || Answer { number: 1, base: 0, bytes: bytes(), inflated: 0, here: true, order: Bytes::new() };
        let mut members = Map::new();
        for key in KEYS {
            members.insert(
                (*key).to_owned(),
                json!([secret, { "name": secret, "text": secret, secret: secret }]),
            );
        }
        members.insert(secret.to_owned(), json!(1));
        let json = Value::Object(members).to_string();
        let bodies = [
            Body::Session(Session {
                id: 1,
                release: text(),
                node: text(),
                endpoint: text(),
                runtime: text(),
                runtime_version: text(),
                period: 1,
                threshold: 1,
                slow: 1,
                kubelet: text(),
                dropped: 0,
                segment: 1,
                timeout: 1,
            }),
            Body::Asked(Asked {
                call: 1,
                rpc: rpc_number(Rpc::ContainerStatus),
                request: bytes(),
                relist: 1,
            }),
            Body::Asked(Asked { call: 2, rpc: 999, request: bytes(), relist: 1 }),
            Body::Ended(Ended {
                call: 1,
                took: 1,
                outcome: 1,
                code: 1,
                message: text(),
                answers: vec![answer()],
                omitted: false,
                waited: 0,
            }),
            Body::Relist(RelistDone {
                number: 1,
                began: 1,
                error: text(),
                pods: 1,
                containers: 1,
                events: 1,
            }),
            Body::Document(Document { kind: 1, text: json.clone().into(), inflated: 0 }),
            Body::Document(Document { kind: 1, text: bytes(), inflated: 0 }),
            Body::Incident(Incident {
                number: 1,
                from: 1,
                to: 2,
                why: text(),
                verdict: text(),
                summary: text(),
                primary: json,
                peak: 1,
                pinned_from: 1,
                pinned_to: 2,
                lasted: 1,
            }),
            Body::Jump(Jump { by: 1 }),
            Body::Lost(Lost {
                entries: 1,
                why: text(),
                ends: vec![LostEnd { call: 1, mono: 1 }],
                since: 1,
                more_ends: true,
            }),
            Body::Stopped(Stopped { why: text() }),
            Body::Told(Told { call: 1, answer: answer() }),
        ];
        bodies.into_iter().map(|body| Entry { wall: 1, mono: 1, body: Some(body) }).collect()
    }

    #[test]
    fn secret_in_any_field_of_any_entry_is_in_no_export() {
        for secret in SECRETS {
            let mut names = Names::default();
            for (number, mut entry) in entries(secret).into_iter().enumerate() {
                for of in [None, Some(Rpc::ContainerStatus)] {
                    names.entry(&mut entry, of);
                }
                let written = entry.encode_to_vec();
                let found = written.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "{secret} in entry {number}: {entry:?}");
            }
        }
    }

    #[test]
    fn same_word_as_two_kinds_of_name_is_two_names() {
        let mut names = Names::default();
        let value = names.part(rename::NameKind::Value, "app");
        let container = names.part(rename::NameKind::Container, "app");
        let key = names.part(rename::NameKind::Key, "app");
        assert_eq!(
            (value.as_str(), container.as_str(), key.as_str()),
            ("value-1", "container-1", "example.com/label-1")
        );
        for (kind, name) in [(Kind::Namespace, "shop"), (Kind::Pod, "db-0")] {
            names.alias(kind, name);
        }
        let text = "ContainerStatus of shop/db-0/app took 3s";
        assert_eq!(phrase(text, &names), "ContainerStatus of namespace-1/pod-1/container-1 took 3s");
        let event = json!({"kind": "Event", "name": "app", "pod": {"name": "db-0", "namespace": "shop"}});
        let renamed = json!({"kind": "Event", "name": "container-1", "pod": {"name": "pod-1", "namespace": "namespace-1"}});
        assert_eq!(names.value("", "", event), renamed);
    }

    #[test]
    fn verdict_is_no_name_even_if_a_pod_is_called_so() {
        let mut names = Names::default();
        names.alias(Kind::Pod, "unhealthy");
        let value =
            json!({ "verdict": "unhealthy", "title": "ContainerStatus of unhealthy does not answer" });
        let expected = json!({ "verdict": "unhealthy", "title": "ContainerStatus of pod-1 does not answer" });
        assert_eq!(names.value("", "", value), expected);
    }

    #[test]
    fn id_stays_and_what_is_none_is_replaced() {
        let mut names = Names::default();
        let id = "0cfd283c17410cfd283c17410cfd283c1741";
        assert_eq!(names.own_id(id), id);
        assert_eq!(names.own_id("anna"), "id-1");
        let missing = |id: &str| format!("an error occurred when try to find container \"{id}\": not found");
        assert_eq!(phrase(&missing(id), &names), missing(id));
        assert_eq!(phrase(&missing("anna"), &names), missing("id-1"));
        let other = missing("deadbeefdeadbeef");
        assert_eq!(phrase(&other, &names), without(&other), "nobody has this id");
    }
}
