//! Anonymises a capture: each name gets one pseudonym, and each text that plegctl did not write is replaced by its length.
//!
//! Ids and UIDs, states, attempts, numbers and times stay, because PLEG depends on them. A closed list defines which keys, words
//! and phrases stay: [`super::phrases`].

use std::collections::{BTreeSet, HashMap};

use prost::bytes::Bytes;
use serde_json::{Map, Value};

use super::entry::{Body, CaptureEntry};
use super::phrases::{self, KEYS, NameReplacer, phrase, without};
use super::recent::Recent;
use crate::cri::Rpc;
use crate::cri::rename::{self, NameKind};
use crate::report::fits_in_memory;

/// The beginnings of pseudonyms, one for each kind of name. Equal names of two kinds get two pseudonyms.
mod prefix {
    pub const NODE: &str = "node";
    pub const NAMESPACE: &str = "namespace";
    pub const POD: &str = "pod";
    pub const CONTAINER: &str = "container";
    pub const IMAGE: &str = "image";
    pub const KEY: &str = "example.com/label";
    pub const VALUE: &str = "value";
    pub const ADDRESS: &str = "address";
    pub const PATH: &str = "/path";
    pub const ID: &str = "id";
    pub const RUNTIME: &str = "runtime";
}

/// The pseudonyms of all names.
#[derive(Debug, Default)]
pub struct Pseudonyms {
    /// The pseudonyms by prefix and name.
    known: HashMap<&'static str, HashMap<String, String>>,
    /// The ids, which stay as they are.
    ids: BTreeSet<String>,
    /// The answers that were anonymised recently.
    renamed: Recent<Rpc, Option<Bytes>>,
}

/// Whether this looks like an id that a runtime or a kubelet generated.
fn is_id(text: &str) -> bool {
    text.len() >= 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

impl Pseudonyms {
    /// Returns the number of names.
    pub fn count(&self) -> usize {
        self.known.values().map(HashMap::len).sum()
    }

    /// Returns the pseudonym for `name`.
    fn alias(&mut self, prefix: &'static str, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let known = self.known.entry(prefix).or_default();
        if let Some(alias) = known.get(name) {
            return alias.clone();
        }
        let alias = format!("{prefix}-{}", known.len() + 1);
        known.insert(name.to_owned(), alias.clone());
        alias
    }

    fn known(&self, prefix: &'static str, name: &str) -> Option<&String> {
        self.known.get(prefix)?.get(name)
    }

    /// Returns a generated id as it is, and a pseudonym for any other id.
    fn own_id(&mut self, id: &str) -> String {
        if is_id(id) {
            if !self.ids.contains(id) {
                self.ids.insert(id.to_owned());
            }
            return id.to_owned();
        }
        self.alias(prefix::ID, id)
    }

    /// Registers the name of the node.
    pub fn node(&mut self, name: &str) {
        self.alias(prefix::NODE, name);
    }

    /// Returns the replacement for a text in a message of the CRI.
    fn part(&mut self, kind: NameKind, text: &str) -> String {
        let kept = |is_known: bool, text: &str| if is_known { text.to_owned() } else { without(text) };
        match kind {
            NameKind::Id => self.own_id(text),
            NameKind::Fact if phrases::is_fact(text) => text.to_owned(),
            NameKind::Reason => kept(phrases::is_reason(text), text),
            NameKind::Condition => kept(phrases::is_condition(text), text),
            NameKind::Version => phrases::version(text).to_owned(),
            NameKind::Runtime => self.runtime(text),
            NameKind::Namespace => self.alias(prefix::NAMESPACE, text),
            NameKind::Pod => self.alias(prefix::POD, text),
            NameKind::Container => self.alias(prefix::CONTAINER, text),
            NameKind::Image => self.alias(prefix::IMAGE, text),
            NameKind::Key => self.alias(prefix::KEY, text),
            NameKind::Value | NameKind::Fact => self.alias(prefix::VALUE, text),
            NameKind::Address => self.alias(prefix::ADDRESS, text),
            NameKind::Path => self.alias(prefix::PATH, text),
        }
    }

    fn runtime(&mut self, name: &str) -> String {
        if phrases::is_program(name) { name.to_owned() } else { self.alias(prefix::RUNTIME, name) }
    }

    /// Returns an answer with pseudonyms, and registers its names; `None` if the answer cannot be read.
    pub fn answer(&mut self, rpc: Rpc, message: &Bytes) -> Option<Bytes> {
        if let Some(renamed) = self.renamed.get(rpc, message) {
            return renamed.clone();
        }
        let renamed = rename::answer(rpc, message, &mut |kind, text| self.part(kind, text));
        let size = renamed.as_ref().map_or(0, Bytes::len);
        self.renamed.put(rpc, message.clone(), renamed.clone(), size);
        renamed
    }

    /// Replaces the names and texts of an entry; `of` is the RPC if the entry is the end of a call.
    pub fn entry(&mut self, entry: &mut CaptureEntry, of: Option<Rpc>) {
        match &mut entry.body {
            Some(Body::Session(session)) => {
                session.release = phrases::version(&session.release).to_owned();
                session.node = self.alias(prefix::NODE, &session.node);
                session.endpoint = self.endpoint(&session.endpoint);
                session.runtime = self.runtime(&session.runtime);
                session.runtime_version = phrases::version(&session.runtime_version).to_owned();
                session.kubelet = phrases::version(&session.kubelet).to_owned();
            }
            Some(Body::CallStarted(started)) => {
                let rpc = super::entry::rpc(started.rpc);
                let renamed = rpc.and_then(|rpc| {
                    rename::request(rpc, &started.request, &mut |kind, text| self.part(kind, text))
                });
                started.request = renamed.unwrap_or_default();
            }
            Some(Body::CallFinished(ended)) => {
                ended.message = phrase(&ended.message, self);
                for answer in &mut ended.answers {
                    // An answer that cannot be read may contain names, so it is left out.
                    let renamed = of.and_then(|rpc| self.answer(rpc, &answer.bytes));
                    ended.omitted |= renamed.is_none();
                    answer.bytes = renamed.unwrap_or_default();
                }
                if ended.omitted {
                    ended.answers.clear();
                }
            }
            Some(Body::StreamMessage(streamed)) => {
                let renamed = self.answer(Rpc::GetContainerEvents, &streamed.answer.bytes);
                streamed.answer.bytes = renamed.unwrap_or_default();
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

    /// Returns a document with pseudonyms; `null` for a text that is not JSON.
    fn document(&mut self, text: &[u8]) -> Bytes {
        // A document that would need too much memory is left out.
        let text = if fits_in_memory(text) { text } else { b"" };
        match serde_json::from_slice::<Value>(text) {
            Ok(value) => self.value("", "", value).to_string().into(),
            Err(_) => Bytes::from_static(b"null"),
        }
    }

    /// Returns the replacement for a JSON value under `key`, in an object under `of`.
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
            "namespace" => self.alias(prefix::NAMESPACE, text),
            "node" => self.alias(prefix::NODE, text),
            "pod" => self.alias(prefix::POD, text),
            "name" if of == "pod" => self.alias(prefix::POD, text),
            "name" if of == "runtime" => self.runtime(text),
            "name" if matches!(of, "probes" | "processes" | "stoppedShims") => {
                if phrases::is_program(text) {
                    text.to_owned()
                } else {
                    phrase(text, self)
                }
            }
            "container" | "name" => self.alias(prefix::CONTAINER, text),
            "id" | "ids" | "uid" if !phrases::is_rule(text) => self.own_id(text),
            "endpoint" => self.endpoint(text),
            "version" => phrases::version(text).to_owned(),
            "reason" if phrases::is_reason(text) => text.to_owned(),
            // The text of a kubelet's metrics.
            "text" => phrases::series(text),
            _ if phrases::is_word(text) => text.to_owned(),
            _ => phrase(text, self),
        }
    }
}

impl NameReplacer for Pseudonyms {
    fn pod(&self, text: &str) -> Option<String> {
        let mut parts = text.split('/');
        let alias = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(one), None, ..) => {
                let prefixes = [prefix::CONTAINER, prefix::POD, prefix::NAMESPACE, prefix::NODE];
                let of_id = one.strip_prefix("pod ").and_then(|id| Some(format!("pod {}", self.id(id)?)));
                prefixes.into_iter().find_map(|prefix| self.known(prefix, one)).cloned().or(of_id)?
            }
            (Some(namespace), Some(pod), container, None) => {
                let namespace = self.known(prefix::NAMESPACE, namespace)?;
                let pod = self.known(prefix::POD, pod)?;
                match container {
                    Some(container) => {
                        format!("{namespace}/{pod}/{}", self.known(prefix::CONTAINER, container)?)
                    }
                    None => format!("{namespace}/{pod}"),
                }
            }
            _ => return None,
        };
        Some(alias)
    }

    fn id(&self, text: &str) -> Option<String> {
        let known = self.known(prefix::ID, text).cloned();
        // Texts contain the first twelve or thirteen digits of an id.
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
        CallFinished, CallStarted, Incident, Jump, Lost, LostEnd, RelistDone, Session, Stopped,
        StoredDocument, StoredMessage, StreamMessage, rpc_number,
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
    fn entries(secret: &str) -> Vec<CaptureEntry> {
        let text = || secret.to_owned();
        let bytes = || Bytes::from(secret.to_owned());
        let answer = || StoredMessage {
            number: 1,
            base: 0,
            bytes: bytes(),
            inflated: 0,
            here: true,
            order: Bytes::new(),
        };
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
            Body::CallStarted(CallStarted {
                call: 1,
                rpc: rpc_number(Rpc::ContainerStatus),
                request: bytes(),
                relist: 1,
            }),
            Body::CallStarted(CallStarted { call: 2, rpc: 999, request: bytes(), relist: 1 }),
            Body::CallFinished(CallFinished {
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
            Body::Document(StoredDocument { kind: 1, text: json.clone().into(), inflated: 0 }),
            Body::Document(StoredDocument { kind: 1, text: bytes(), inflated: 0 }),
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
            Body::StreamMessage(StreamMessage { call: 1, answer: answer() }),
        ];
        bodies.into_iter().map(|body| CaptureEntry { wall: 1, mono: 1, body: Some(body) }).collect()
    }

    #[test]
    fn secret_in_any_field_of_any_entry_is_in_no_export() {
        for secret in SECRETS {
            let mut names = Pseudonyms::default();
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
        let mut names = Pseudonyms::default();
        let value = names.part(NameKind::Value, "app");
        let container = names.part(NameKind::Container, "app");
        let key = names.part(NameKind::Key, "app");
        assert_eq!(
            (value.as_str(), container.as_str(), key.as_str()),
            ("value-1", "container-1", "example.com/label-1")
        );
        for (kind, name) in [(prefix::NAMESPACE, "shop"), (prefix::POD, "db-0")] {
            names.alias(kind, name);
        }
        let text = "ContainerStatus of shop/db-0/app took 3s";
        assert_eq!(phrase(text, &names), "ContainerStatus of namespace-1/pod-1/container-1 took 3s");
        let event = json!({"kind": "Event", "name": "app", "pod": {"name": "db-0", "namespace": "shop"}});
        let renamed = json!({"kind": "Event", "name": "container-1", "pod": {"name": "pod-1", "namespace": "namespace-1"}});
        assert_eq!(names.value("", "", event), renamed);
    }

    #[test]
    fn verdict_stays_even_if_a_pod_has_the_same_name() {
        let mut names = Pseudonyms::default();
        names.alias(prefix::POD, "unhealthy");
        let value =
            json!({ "verdict": "unhealthy", "title": "ContainerStatus of unhealthy does not answer" });
        let expected = json!({ "verdict": "unhealthy", "title": "ContainerStatus of pod-1 does not answer" });
        assert_eq!(names.value("", "", value), expected);
    }

    #[test]
    fn generated_id_stays_and_any_other_is_replaced() {
        let mut names = Pseudonyms::default();
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
