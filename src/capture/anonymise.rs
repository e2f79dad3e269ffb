//! Anonymises the entries of a capture: replaces each name by one pseudonym, and each text that is not a known phrase by its
//! length.
//!
//! Ids and UIDs, states, attempts, numbers and times stay, because PLEG depends on them. Closed lists in [`super::phrases`]
//! define which keys, words and phrases stay.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use prost::bytes::Bytes;
use serde_json::{Map, Value};

use super::entry::{Body, CaptureEntry, kind};
use super::message_cache::MessageCache;
use super::name_filter::NameFilter;
use super::phrases::{self, KEYS, NameReplacer, anonymise_phrase, length_of_text};
use crate::cri::Rpc;
use crate::cri::rename::{self, NameKind};
use crate::report::fits_in_memory;

/// The prefixes of pseudonyms, one for each kind of name. Equal names of different kinds get different pseudonyms.
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
    /// For the beginnings of generated ids, which stay as they are and have no pseudonym.
    pub const GENERATED_ID: &str = "generated id";
}

/// The number of names whose pseudonyms are numbers. The pseudonym of any further name is its hash, so that the memory does
/// not grow with the number of pods.
const MAX_NUMBERED: usize = 50_000;

/// The pseudonyms of all names. A recorder makes exports too and must stay small, so no names are kept, and hashes only of
/// the first ones.
#[derive(Debug, Default)]
pub struct Pseudonyms {
    /// The numbers of the first names, by the hash of prefix and name.
    numbers: HashMap<NameHash, u32>,
    /// The further names.
    further: NameFilter,
    /// The number of names by prefix.
    counts: HashMap<&'static str, u32>,
    /// Creates the hashes. It has a random seed, so nobody can construct two names with the same hash, or find a name by its
    /// hash.
    hashes: RandomState,
    /// The anonymised answers; `None` for an answer that cannot be read.
    renamed: MessageCache<Rpc, Option<Bytes>>,
}

/// The hash of a name.
type NameHash = u64;

/// The length of the shortest text that can be an id. Messages contain the first twelve or thirteen digits of an id.
const MIN_ID_LENGTH: usize = 12;

/// Whether the text looks like an id that a runtime or a kubelet generated.
fn is_id(text: &str) -> bool {
    text.len() >= MIN_ID_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

impl Pseudonyms {
    /// Returns the number of names that have a pseudonym.
    pub fn count(&self) -> usize {
        let of_names = self.counts.iter().filter(|(prefix, _)| **prefix != prefix::GENERATED_ID);
        of_names.map(|(_, count)| usize::try_from(*count).unwrap_or(usize::MAX)).sum()
    }

    /// Returns the pseudonym for `name`, and registers the name if necessary.
    fn pseudonym(&mut self, prefix: &'static str, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let hash = self.hash(prefix, name);
        self.register(prefix, hash);
        self.pseudonym_of(prefix, hash)
    }

    /// Registers a name by its hash.
    fn register(&mut self, prefix: &'static str, hash: NameHash) {
        if self.numbers.contains_key(&hash) {
            return;
        }
        let count = self.counts.entry(prefix).or_default();
        let next = count.saturating_add(1);
        if self.numbers.len() < MAX_NUMBERED {
            self.numbers.insert(hash, next);
            *count = next;
        } else if self.further.add(hash) {
            *count = next;
        }
    }

    /// Returns the pseudonym of the registered name with this hash.
    fn pseudonym_of(&self, prefix: &'static str, hash: NameHash) -> String {
        match self.numbers.get(&hash) {
            Some(number) => format!("{prefix}-{number}"),
            None => format!("{prefix}-{hash:016x}"),
        }
    }

    /// Returns the pseudonym of a name that is already registered.
    fn known(&self, prefix: &'static str, name: &str) -> Option<String> {
        let hash = self.hash(prefix, name);
        self.is_registered(hash).then(|| self.pseudonym_of(prefix, hash))
    }

    fn is_registered(&self, hash: NameHash) -> bool {
        self.numbers.contains_key(&hash) || self.further.has(hash)
    }

    /// Equal names with different prefixes have different hashes, so that nobody sees in an export that they are equal.
    fn hash(&self, prefix: &'static str, name: &str) -> NameHash {
        self.hashes.hash_one((prefix, name))
    }

    /// Returns the hash of the beginning of an id.
    fn hash_of_id(&self, id: &str) -> NameHash {
        self.hash(prefix::GENERATED_ID, id.get(..MIN_ID_LENGTH).unwrap_or(id))
    }

    /// Limits the memory for anonymised answers that may be needed again.
    pub(super) fn with_cache_limit(self, bytes: usize) -> Self {
        Self { renamed: MessageCache::with_limit(bytes), ..self }
    }

    /// Returns a generated id unchanged, and a pseudonym for any other id.
    fn keep_generated_id(&mut self, id: &str) -> String {
        if is_id(id) {
            self.register(prefix::GENERATED_ID, self.hash_of_id(id));
            return id.to_owned();
        }
        self.pseudonym(prefix::ID, id)
    }

    /// Registers the name of the node.
    pub fn add_node(&mut self, name: &str) {
        self.pseudonym(prefix::NODE, name);
    }

    /// Returns the replacement for a text of this kind in a message of the CRI.
    fn replace_name(&mut self, kind: NameKind, text: &str) -> String {
        let kept = |is_known: bool, text: &str| if is_known { text.to_owned() } else { length_of_text(text) };
        match kind {
            NameKind::Id => self.keep_generated_id(text),
            NameKind::KnownValue if phrases::is_known_label_value(text) => text.to_owned(),
            NameKind::Reason => kept(phrases::is_known_reason(text), text),
            NameKind::Condition => kept(phrases::is_known_condition(text), text),
            NameKind::Version => phrases::version_numbers(text).to_owned(),
            NameKind::Runtime => self.replace_runtime(text),
            NameKind::Namespace => self.pseudonym(prefix::NAMESPACE, text),
            NameKind::Pod => self.pseudonym(prefix::POD, text),
            NameKind::Container => self.pseudonym(prefix::CONTAINER, text),
            NameKind::Image => self.pseudonym(prefix::IMAGE, text),
            NameKind::Key => self.pseudonym(prefix::KEY, text),
            NameKind::Value | NameKind::KnownValue => self.pseudonym(prefix::VALUE, text),
            NameKind::Address => self.pseudonym(prefix::ADDRESS, text),
            NameKind::Path => self.pseudonym(prefix::PATH, text),
        }
    }

    /// Returns the name of a known runtime unchanged, and a pseudonym for any other name.
    fn replace_runtime(&mut self, name: &str) -> String {
        if phrases::is_known_program(name) { name.to_owned() } else { self.pseudonym(prefix::RUNTIME, name) }
    }

    /// Returns an answer with pseudonyms, and registers its names; `None` if the answer cannot be read.
    pub fn answer(&mut self, rpc: Rpc, message: &Bytes) -> Option<Bytes> {
        if let Some(renamed) = self.renamed.get(rpc, message) {
            return renamed.clone();
        }
        let renamed = rename::answer(rpc, message, &mut |kind, text| self.replace_name(kind, text));
        let size = renamed.as_ref().map_or(0, Bytes::len);
        self.renamed.put(rpc, message.clone(), renamed.clone(), size);
        renamed
    }

    /// Replaces the names and texts in an entry; `answered_rpc` is the RPC if the entry is the end of a call.
    pub fn entry(&mut self, entry: &mut CaptureEntry, answered_rpc: Option<Rpc>) {
        match &mut entry.body {
            Some(Body::Session(session)) => {
                session.release = phrases::version_numbers(&session.release).to_owned();
                session.node = self.pseudonym(prefix::NODE, &session.node);
                session.endpoint = self.endpoint(&session.endpoint);
                session.runtime = self.replace_runtime(&session.runtime);
                session.runtime_version = phrases::version_numbers(&session.runtime_version).to_owned();
                session.kubelet = phrases::version_numbers(&session.kubelet).to_owned();
            }
            Some(Body::CallStarted(started)) => {
                let rpc = super::entry::rpc(started.rpc);
                let renamed = rpc.and_then(|rpc| {
                    rename::request(rpc, &started.request, &mut |kind, text| self.replace_name(kind, text))
                });
                started.request = renamed.unwrap_or_default();
            }
            Some(Body::CallFinished(ended)) => {
                ended.message = anonymise_phrase(&ended.message, self);
                for answer in &mut ended.answers {
                    // An answer that cannot be read may contain names, so it is left out.
                    let renamed = answered_rpc.and_then(|rpc| self.answer(rpc, &answer.bytes));
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
            Some(Body::Relist(relist)) => relist.error = anonymise_phrase(&relist.error, self),
            // The facts of a node have names in forms that no key shows, so they are left out.
            Some(Body::Document(document)) if document.kind == kind::FACTS => document.text = Bytes::new(),
            Some(Body::Document(document)) => document.text = self.replace_document(&document.text),
            Some(Body::Incident(incident)) => {
                incident.why = anonymise_phrase(&incident.why, self);
                incident.verdict = self.replace_string("verdict", "", &incident.verdict);
                incident.summary = anonymise_phrase(&incident.summary, self);
                if !incident.primary.is_empty() {
                    let primary = self.replace_document(incident.primary.as_bytes());
                    incident.primary = String::from_utf8_lossy(&primary).into_owned();
                }
            }
            Some(Body::Lost(lost)) => lost.why = anonymise_phrase(&lost.why, self),
            Some(Body::Stopped(stopped)) => stopped.why = anonymise_phrase(&stopped.why, self),
            Some(Body::Jump(_)) | None => {}
        }
    }

    /// Returns a document with pseudonyms; `null` for a text that is not JSON.
    fn replace_document(&mut self, text: &[u8]) -> Bytes {
        // A document that would need too much memory becomes `null`.
        let text = if fits_in_memory(text) { text } else { b"" };
        match serde_json::from_slice::<Value>(text) {
            Ok(value) => self.replace_value("", "", value).to_string().into(),
            Err(_) => Bytes::from_static(b"null"),
        }
    }

    /// Returns the replacement for a JSON value under `key`, in an object under the key `parent`.
    fn replace_value(&mut self, key: &str, parent: &str, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.replace_string(key, parent, &text)),
            Value::Array(items) => {
                items.into_iter().map(|item| self.replace_value(key, parent, item)).collect()
            }
            Value::Object(members) => {
                let known = members.into_iter().filter(|(inner, _)| KEYS.contains(&inner.as_str()));
                let mut kept = Map::new();
                for (inner, value) in known {
                    let value = self.replace_value(&inner, key, value);
                    kept.insert(inner, value);
                }
                Value::Object(kept)
            }
            other => other,
        }
    }

    /// Returns the replacement for a JSON text under `key`, in an object under the key `parent`.
    fn replace_string(&mut self, key: &str, parent: &str, text: &str) -> String {
        match key {
            "namespace" => self.pseudonym(prefix::NAMESPACE, text),
            "node" => self.pseudonym(prefix::NODE, text),
            "pod" => self.pseudonym(prefix::POD, text),
            "name" if parent == "pod" => self.pseudonym(prefix::POD, text),
            "name" if parent == "runtime" => self.replace_runtime(text),
            "name" if matches!(parent, "probes" | "processes" | "stoppedShims") => {
                if phrases::is_known_program(text) {
                    text.to_owned()
                } else {
                    anonymise_phrase(text, self)
                }
            }
            "container" | "name" => self.pseudonym(prefix::CONTAINER, text),
            "id" | "ids" | "uid" if !phrases::is_rule(text) => self.keep_generated_id(text),
            "endpoint" => self.endpoint(text),
            "version" => phrases::version_numbers(text).to_owned(),
            "reason" if phrases::is_known_reason(text) => text.to_owned(),
            // The text of a kubelet's metrics.
            "text" => phrases::known_metrics(text),
            _ if phrases::is_known_word(text) => text.to_owned(),
            _ => anonymise_phrase(text, self),
        }
    }
}

impl NameReplacer for Pseudonyms {
    fn pod(&self, text: &str) -> Option<String> {
        let mut parts = text.split('/');
        let pseudonym = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(one), None, ..) => {
                let prefixes = [prefix::CONTAINER, prefix::POD, prefix::NAMESPACE, prefix::NODE];
                let of_id = one.strip_prefix("pod ").and_then(|id| Some(format!("pod {}", self.id(id)?)));
                prefixes.into_iter().find_map(|prefix| self.known(prefix, one)).or(of_id)?
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
        Some(pseudonym)
    }

    fn id(&self, text: &str) -> Option<String> {
        let is_known = || is_id(text) && self.is_registered(self.hash_of_id(text));
        self.known(prefix::ID, text).or_else(|| is_known().then(|| text.to_owned()))
    }

    fn endpoint(&self, text: &str) -> String {
        if text.is_empty() || phrases::is_default_endpoint(text) {
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

    /// Texts that no export may contain. Each has the form of a text that stays.
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

    /// Creates an entry of every kind with a secret in each field. Whoever adds a field to an entry adds it here too.
    fn entries(secret: &str) -> Vec<CaptureEntry> {
        let text = || secret.to_owned();
        let bytes = || Bytes::from(secret.to_owned());
        let answer = || StoredMessage {
            number: 1,
            base: 0,
            bytes: bytes(),
            inflated: 0,
            is_stored_here: true,
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
    fn export_contains_no_secret_from_any_field_of_any_entry() {
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
    fn facts_of_a_node_are_left_out() {
        // `verdict` is a key that stays in other documents.
        let text = Bytes::from_static(br#"{"verdict": "healthy"}"#);
        for (kind, is_left) in [(kind::FACTS, false), (kind::NODE, true)] {
            let document = StoredDocument { kind, text: text.clone(), inflated: 0 };
            let mut entry = CaptureEntry { wall: 1, mono: 1, body: Some(Body::Document(document)) };
            Pseudonyms::default().entry(&mut entry, None);
            let Some(Body::Document(left)) = entry.body else { panic!("a document stays a document") };
            assert_eq!(!left.text.is_empty(), is_left, "{kind}: {:?}", left.text);
        }
    }

    #[test]
    fn equal_names_of_different_kinds_get_different_pseudonyms() {
        let mut names = Pseudonyms::default();
        let value = names.replace_name(NameKind::Value, "app");
        let container = names.replace_name(NameKind::Container, "app");
        let key = names.replace_name(NameKind::Key, "app");
        assert_eq!(
            (value.as_str(), container.as_str(), key.as_str()),
            ("value-1", "container-1", "example.com/label-1")
        );
        for (kind, name) in [(prefix::NAMESPACE, "shop"), (prefix::POD, "db-0")] {
            names.pseudonym(kind, name);
        }
        let text = "ContainerStatus of shop/db-0/app took 3s";
        assert_eq!(
            anonymise_phrase(text, &names),
            "ContainerStatus of namespace-1/pod-1/container-1 took 3s"
        );
        let event = json!({"kind": "Event", "name": "app", "pod": {"name": "db-0", "namespace": "shop"}});
        let renamed = json!({"kind": "Event", "name": "container-1", "pod": {"name": "pod-1", "namespace": "namespace-1"}});
        assert_eq!(names.replace_value("", "", event), renamed);
    }

    #[test]
    fn further_names_get_their_hashes_as_pseudonyms_and_are_found_in_texts() {
        let mut names = Pseudonyms::default();
        let last = 2 * MAX_NUMBERED;
        let id = |number: usize| format!("{number:012x}");
        let mut pseudonyms = std::collections::HashSet::new();
        for number in 1..=last {
            pseudonyms.insert(names.pseudonym(prefix::POD, &number.to_string()));
            names.keep_generated_id(&id(number));
        }
        assert_eq!((names.numbers.len(), pseudonyms.len(), names.count()), (MAX_NUMBERED, last, last));
        names.pseudonym(prefix::NAMESPACE, "1");
        for (pod, is_numbered) in [("1", true), ("99999", false)] {
            let pseudonym = names.pseudonym(prefix::POD, pod);
            assert_eq!(pseudonym.len() < "pod-0123456789abcdef".len(), is_numbered, "{pseudonym}");
            assert!(pseudonyms.contains(&pseudonym), "{pseudonym} stays the same");
            let namespace = names.pseudonym(prefix::NAMESPACE, "1");
            let text = format!("ContainerStatus of 1/{pod} took 3s");
            let expected = format!("ContainerStatus of {namespace}/{pseudonym} took 3s");
            assert_eq!(anonymise_phrase(&text, &names), expected);
        }
        let hash = |prefix| names.known(prefix, "1").map(|name| name.replace(prefix, ""));
        assert_ne!(hash(prefix::NAMESPACE), hash(prefix::POD));
        assert_eq!(names.known(prefix::POD, "anna"), None);
        assert_eq!((names.id(&id(last)), names.id(&id(last + 1))), (Some(id(last)), None));
    }

    #[test]
    fn verdict_stays_even_if_a_pod_has_the_same_name() {
        let mut names = Pseudonyms::default();
        names.pseudonym(prefix::POD, "unhealthy");
        let value =
            json!({ "verdict": "unhealthy", "title": "ContainerStatus of unhealthy does not answer" });
        let expected = json!({ "verdict": "unhealthy", "title": "ContainerStatus of pod-1 does not answer" });
        assert_eq!(names.replace_value("", "", value), expected);
    }

    #[test]
    fn generated_id_stays_and_any_other_is_replaced() {
        let mut names = Pseudonyms::default();
        let id = "0cfd283c17410cfd283c17410cfd283c1741";
        assert_eq!(names.keep_generated_id(id), id);
        assert_eq!(names.keep_generated_id("anna"), "id-1");
        let missing = |id: &str| format!("an error occurred when try to find container \"{id}\": not found");
        assert_eq!(anonymise_phrase(&missing(id), &names), missing(id));
        assert_eq!(anonymise_phrase(&missing("anna"), &names), missing("id-1"));
        let other = missing("deadbeefdeadbeef");
        assert_eq!(anonymise_phrase(&other, &names), length_of_text(&other), "the capture has no such id");
    }
}
