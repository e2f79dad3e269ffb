//! Anonymises the entries of a capture: replaces each name by one pseudonym, and each text that may contain names by its
//! length.
//!
//! Ids and UIDs, states, attempts, numbers and times stay, because PLEG depends on them. The type of each field of a message, of
//! a diagnosis and of a fact says what it names ([`Rename`]), and the words of a diagnosis are written again from its renamed
//! facts. In the other documents, closed lists in [`super::known_words`] define which keys and words stay.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use prost::bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::entry::{Body, CallFinished, CaptureEntry, Incident, RecordedOutcome, kind};
use super::known_words::{self as known, length_of_text};
use super::message_cache::MessageCache;
use crate::cri::{Rpc, rename};
use crate::diagnosis::facts::Fact;
use crate::diagnosis::kernel_waits::KernelWaitReason;
use crate::diagnosis::report::{HealthFinding, Verdict, verdict_fact};
use crate::diagnosis::{HealthReport, NodeFacts, known_wait};
use crate::manifests::preflight::known_part;
use crate::report::rename::{NameKind, Rename};
use crate::report::{fits_in_memory, json};

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
    pub const PROCESS: &str = "process";
    pub const ENDPOINT: &str = "/endpoint";
    pub const PATH_PART: &str = "part";
    pub const FUNCTION: &str = "function";
}

/// The number of names whose pseudonyms are numbers. The pseudonym of any further name is its hash, so that the memory does
/// not grow with the number of pods.
pub const MAX_NUMBERED: usize = 50_000;

/// The pseudonyms of all names. A recorder makes exports too and must stay small, so no names are kept, and hashes only of
/// the first ones.
#[derive(Debug, Default)]
pub struct Pseudonyms {
    /// The numbers of the first names, by the hash of prefix and name.
    numbers: HashMap<NameHash, u32>,
    /// The number of numbered names by prefix.
    counts: HashMap<&'static str, u32>,
    /// Creates the hashes. It has a random seed, so nobody can construct two names with the same hash, or find a name by its
    /// hash.
    hashes: RandomState,
    /// The anonymised answers; `None` for an answer that cannot be read.
    renamed: MessageCache<Rpc, Option<Bytes>>,
    /// The endpoint of the present session, and its replacement.
    endpoints: (String, String),
    /// The words of the last failed list call, with their replacement: the relist and the incident repeat them.
    list_error: Option<(String, String)>,
    /// Whether all ids stay: those of tests are short.
    #[cfg(test)]
    keeps_ids: bool,
}

/// The hash of a name.
type NameHash = u64;

impl Pseudonyms {
    /// Returns the number of names that have a pseudonym, at most [`MAX_NUMBERED`].
    pub fn count(&self) -> usize {
        self.numbers.len()
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
        if self.numbers.len() >= MAX_NUMBERED || self.numbers.contains_key(&hash) {
            return;
        }
        let count = self.counts.entry(prefix).or_default();
        *count = count.saturating_add(1);
        self.numbers.insert(hash, *count);
    }

    /// Returns the pseudonym of the registered name with this hash.
    fn pseudonym_of(&self, prefix: &'static str, hash: NameHash) -> String {
        match self.numbers.get(&hash) {
            Some(number) => format!("{prefix}-{number}"),
            None => format!("{prefix}-{hash:016x}"),
        }
    }

    /// Equal names with different prefixes have different hashes, so that nobody sees in an export that they are equal.
    fn hash(&self, prefix: &'static str, name: &str) -> NameHash {
        self.hashes.hash_one((prefix, name))
    }

    /// Limits the memory for anonymised answers that may be needed again.
    pub(super) fn with_cache_limit(self, bytes: usize) -> Self {
        Self { renamed: MessageCache::with_limit(bytes), ..self }
    }

    /// Returns a generated id unchanged, and a pseudonym for any other id.
    fn keep_generated_id(&mut self, id: &str) -> String {
        let is_kept = known::is_id(id);
        #[cfg(test)]
        let is_kept = is_kept || self.keeps_ids;
        if is_kept { id.to_owned() } else { self.pseudonym(prefix::ID, id) }
    }

    /// Creates pseudonyms with which all ids stay, as if a runtime had generated them.
    #[cfg(test)]
    pub fn that_keep_ids() -> Self {
        Self { keeps_ids: true, ..Self::default() }
    }

    /// Returns the replacement for a text of this kind.
    fn replace_name(&mut self, kind: NameKind, text: &str) -> String {
        let kept = |is_known: bool| if is_known { text.to_owned() } else { length_of_text(text) };
        match kind {
            NameKind::Id => self.keep_generated_id(text),
            NameKind::KnownValue if known::is_known_label_value(text) => text.to_owned(),
            NameKind::Reason => kept(known::is_known_reason(text)),
            NameKind::Condition => kept(known::is_known_condition(text)),
            NameKind::Word => kept(known::is_known_word(text)),
            NameKind::Version => known::version_numbers(text).to_owned(),
            NameKind::Runtime => self.keep_program(prefix::RUNTIME, text),
            NameKind::Process => self.keep_program(prefix::PROCESS, text),
            NameKind::Function => {
                let words = text.split(' ').map(|function| self.function(function));
                words.collect::<Vec<_>>().join(" ")
            }
            NameKind::Endpoint => self.endpoint(text),
            NameKind::NodePath => self.path(text),
            NameKind::FileSystem => known::file_system(text).to_owned(),
            NameKind::RuntimeNamespace if known::is_runtime_namespace(text) => text.to_owned(),
            NameKind::Refusal => {
                let known = known_part(text).map(str::to_owned);
                known.unwrap_or_else(|| self.text(text))
            }
            NameKind::Text => self.text(text),
            NameKind::Namespace => self.pseudonym(prefix::NAMESPACE, text),
            NameKind::Pod => self.pseudonym(prefix::POD, text),
            NameKind::Container => self.pseudonym(prefix::CONTAINER, text),
            NameKind::Node => self.pseudonym(prefix::NODE, text),
            NameKind::Image => self.pseudonym(prefix::IMAGE, text),
            NameKind::Key => self.pseudonym(prefix::KEY, text),
            NameKind::Value | NameKind::KnownValue | NameKind::RuntimeNamespace => {
                self.pseudonym(prefix::VALUE, text)
            }
            NameKind::Address if known::is_default_endpoint(text) => text.to_owned(),
            NameKind::Address => self.pseudonym(prefix::ADDRESS, text),
            NameKind::Path => self.pseudonym(prefix::PATH, text),
        }
    }

    /// Returns the name of a known program unchanged, and a pseudonym for any other name.
    fn keep_program(&mut self, prefix: &'static str, name: &str) -> String {
        if known::is_known_program(name) { name.to_owned() } else { self.pseudonym(prefix, name) }
    }

    /// Returns the parts of a kernel function's name that rules know, and a pseudonym for any other function: it may be one of a
    /// product.
    fn function(&mut self, name: &str) -> String {
        let beginning = KernelWaitReason::known_beginning(name);
        let part = known_wait(name).filter(|part| !beginning.unwrap_or_default().contains(part));
        match (beginning, part) {
            (None, None) => self.pseudonym(prefix::FUNCTION, name),
            (beginning, part) => [beginning, part].into_iter().flatten().collect(),
        }
    }

    /// Returns an endpoint: the default one of a runtime, or a pseudonym.
    fn endpoint(&mut self, text: &str) -> String {
        if known::is_default_endpoint(text) {
            return text.to_owned();
        }
        let (scheme, path) = text.strip_prefix("unix://").map_or(("", text), |path| ("unix://", path));
        format!("{scheme}{}", self.pseudonym(prefix::ENDPOINT, path))
    }

    /// Replaces the parts of a path. The directories of the kubelet and of cgroups stay, with the ids of pods and containers.
    fn path(&mut self, text: &str) -> String {
        let mut before = "";
        let parts = text.split('/').map(|part| match std::mem::replace(&mut before, part) {
            "pods" => self.keep_generated_id(part),
            _ => known::path_part(part).unwrap_or_else(|| self.pseudonym(prefix::PATH_PART, part)),
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// Returns the replacement for a text that may contain names.
    fn text(&self, text: &str) -> String {
        let error = self.list_error.as_ref().filter(|(words, _)| words == text);
        error.map_or_else(|| length_of_text(text), |(_, replaced)| replaced.clone())
    }

    /// Replaces the names in a value of a document.
    pub fn rename<T: Rename>(&mut self, value: &mut T) {
        value.rename(&mut |kind, text| self.replace_name(kind, text));
    }

    /// Reads a value and replaces its names; `None` if this release cannot read it.
    fn renamed_value<T: Rename + DeserializeOwned>(&mut self, text: &[u8]) -> Option<T> {
        let mut value: T = fits_in_memory(text).then(|| serde_json::from_slice(text).ok())??;
        self.rename(&mut value);
        Some(value)
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

    /// Replaces the names and texts in an entry; `answered_rpc` is the RPC if the entry is the end of a call. Returns false if the
    /// entry is a diagnosis that this release cannot read, so that nobody knows which of its texts are names.
    #[must_use]
    pub fn entry(&mut self, entry: &mut CaptureEntry, answered_rpc: Option<Rpc>) -> bool {
        match &mut entry.body {
            Some(Body::Session(session)) => {
                session.release = known::version_numbers(&session.release).to_owned();
                session.node = self.pseudonym(prefix::NODE, &session.node);
                let renamed = self.endpoint(&session.endpoint);
                self.endpoints = (std::mem::replace(&mut session.endpoint, renamed.clone()), renamed);
                session.runtime = self.keep_program(prefix::RUNTIME, &session.runtime);
                session.runtime_version = known::version_numbers(&session.runtime_version).to_owned();
                session.kubelet = known::version_numbers(&session.kubelet).to_owned();
            }
            Some(Body::CallStarted(started)) => {
                let rpc = super::entry::rpc(started.rpc);
                let renamed = rpc.and_then(|rpc| {
                    rename::request(rpc, &started.request, &mut |kind, text| self.replace_name(kind, text))
                });
                started.request = renamed.unwrap_or_default();
            }
            Some(Body::CallFinished(ended)) => {
                self.replace_error(ended, answered_rpc);
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
            Some(Body::Relist(relist)) => relist.error = self.text(&relist.error),
            Some(Body::Document(document)) if document.kind == kind::FACTS => {
                let facts = NodeFacts::read(&document.text);
                let renamed = facts.and_then(|mut facts| {
                    self.rename(&mut facts);
                    facts.text()
                });
                let Some(text) = renamed else { return false };
                document.text = text.into();
            }
            Some(Body::Document(document)) if document.kind == kind::DIAGNOSIS => {
                let report: Option<HealthReport> = self.renamed_value(&document.text);
                let text = report.filter(HealthReport::is_ours).as_ref().and_then(json::text);
                let Some(text) = text else { return false };
                document.text = text.into();
            }
            Some(Body::Document(document)) => document.text = self.replace_document(&document.text),
            Some(Body::Incident(incident)) => self.replace_incident(incident),
            Some(Body::Lost(lost)) => lost.why = self.replace_name(NameKind::Word, &lost.why),
            Some(Body::Stopped(stopped)) => stopped.why = self.replace_name(NameKind::Word, &stopped.why),
            Some(Body::Jump(_)) | None => {}
        }
        true
    }

    /// Replaces the error message of a call, and remembers that of a list call.
    fn replace_error(&mut self, ended: &mut CallFinished, rpc: Option<Rpc>) {
        let words = |ended: &CallFinished, endpoint: &str| match ended.outcome(rpc?, endpoint) {
            RecordedOutcome::Failed(error) => Some(error.to_string()),
            RecordedOutcome::Answered | RecordedOutcome::Abandoned | RecordedOutcome::Unknown => None,
        };
        let before = words(ended, &self.endpoints.0);
        if !(ended.has_byte_count() && ended.message.parse::<u64>().is_ok()) {
            ended.message = length_of_text(&ended.message);
        }
        if rpc.is_some_and(Rpc::is_list) {
            self.list_error = before.zip(words(ended, &self.endpoints.1)).or(self.list_error.take());
        }
    }

    /// Replaces the names in an incident, and writes its words again.
    fn replace_incident(&mut self, incident: &mut Incident) {
        let reason: Option<Fact> = self.renamed_value(incident.reason.as_bytes());
        incident.reason = reason.as_ref().and_then(json::text).unwrap_or_default();
        incident.why = reason.map_or_else(|| length_of_text(&incident.why), |reason| reason.to_string());
        let primary: Option<HealthFinding> = self.renamed_value(incident.primary.as_bytes());
        let is_read = primary.is_some() || incident.primary.is_empty();
        let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == incident.verdict);
        incident.summary = match verdict.filter(|_| is_read) {
            Some(verdict) => verdict_fact(verdict, primary.as_ref()).to_string(),
            None => length_of_text(&incident.summary),
        };
        incident.verdict = self.replace_name(NameKind::Word, &incident.verdict);
        incident.primary = primary.as_ref().and_then(json::text).unwrap_or_default();
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
                let known = members.into_iter().filter(|(inner, _)| known::keys().contains(&inner.as_str()));
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
            "name" if parent == "runtime" => self.keep_program(prefix::RUNTIME, text),
            "name" if matches!(parent, "processes" | "stoppedShims") => {
                self.keep_program(prefix::PROCESS, text)
            }
            "container" | "name" => self.pseudonym(prefix::CONTAINER, text),
            "id" | "ids" | "uid" if !known::is_rule(text) => self.keep_generated_id(text),
            "endpoint" => self.endpoint(text),
            "version" => known::version_numbers(text).to_owned(),
            "reason" if known::is_known_reason(text) => text.to_owned(),
            // The text of a kubelet's metrics.
            "text" => known::known_metrics(text),
            _ if known::is_known_word(text) => text.to_owned(),
            _ => self.text(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use serde_json::json;
    use std::time::Duration;

    use super::*;
    use crate::capture::entry::{
        CallStarted, Jump, Lost, LostEnd, RelistDone, Session, Stopped, StoredDocument, StoredMessage,
        rpc_number,
    };

    use crate::cri::{Code, Error};
    use crate::diagnosis::facts::{Call, FactKind, Item, ProcessRef};
    use crate::diagnosis::report::CulpritReport;
    use crate::host::Arguments;
    use crate::report::PodRef;

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
        for key in known::keys() {
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
            Body::Document(StoredDocument { kind: kind::EVENT, text: json.clone().into(), inflated: 0 }),
            Body::Document(StoredDocument { kind: kind::EVENT, text: bytes(), inflated: 0 }),
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
                reason: text(),
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
        ];
        bodies.into_iter().map(|body| CaptureEntry { wall: 1, mono: 1, body: Some(body) }).collect()
    }

    #[test]
    fn export_contains_no_secret_from_any_field_of_any_entry() {
        for secret in SECRETS {
            let mut names = Pseudonyms::default();
            for (number, mut entry) in entries(secret).into_iter().enumerate() {
                for of in [None, Some(Rpc::ContainerStatus)] {
                    let _ = names.entry(&mut entry, of);
                }
                let written = entry.encode_to_vec();
                let found = written.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "{secret} in entry {number}: {entry:?}");
            }
        }
    }

    /// Returns `value` with a unique name in each text in which this release reads any text.
    fn marked<T: serde::Serialize + DeserializeOwned>(value: &T) -> (T, Vec<String>) {
        let mut marked = serde_json::to_value(value).unwrap();
        let mut marks = Vec::new();
        for pointer in pointers(&marked, String::new()) {
            let mut with_mark = marked.clone();
            let mark = format!("zq{}x", marks.len());
            if let Some(Value::String(text)) = with_mark.pointer_mut(&pointer) {
                text.push_str(&mark);
            }
            // A word of an enum cannot be any other text.
            let read = serde_json::from_value::<T>(with_mark.clone()).ok();
            if read.is_some_and(|read| json::text(&read).unwrap().contains(&mark)) {
                marked = with_mark;
                marks.push(mark);
            }
        }
        (serde_json::from_value(marked).unwrap(), marks)
    }

    /// Returns the places of all texts.
    fn pointers(value: &Value, place: String) -> Vec<String> {
        match value {
            Value::String(_) => vec![place],
            Value::Array(items) => {
                let items = items.iter().enumerate();
                items.flat_map(|(at, item)| pointers(item, format!("{place}/{at}"))).collect()
            }
            Value::Object(members) => {
                members.iter().flat_map(|(key, item)| pointers(item, format!("{place}/{key}"))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
        }
    }

    #[test]
    fn no_name_in_any_field_of_any_kind_of_fact_is_left_in_its_fields_or_words() {
        let mut all = 0;
        for kind in FactKind::samples() {
            let (mut fact, marks) = marked(&Fact::from(kind));
            all += marks.len();
            let before = format!("{} {fact}", json::text(&fact).unwrap());
            Pseudonyms::default().rename(&mut fact);
            let after = format!("{} {fact}", json::text(&fact).unwrap());
            for mark in marks {
                assert!(before.contains(&mark) && !after.contains(&mark), "{mark}: {before}\n{after}");
            }
            let read: Fact = serde_json::from_str(&json::text(&fact).unwrap()).unwrap();
            assert_eq!(read, fact, "a later reader knows the renamed fact");
        }
        assert!(all > 150, "{all} texts");
    }

    /// Returns facts of a node with each text that they can have.
    fn node_facts() -> NodeFacts {
        let duration = json!({"secs": 1, "nanos": 0});
        let pod = json!({"uid": "u1", "namespace": "shop", "name": "db-0"});
        let mount = json!({"id": 1, "target": "/var/lib/kubelet/pods/u1/volumes/data", "kind": "nfs4",
            "source": "10.1.2.3:/export", "device": "0:51", "readOnly": false});
        let process = json!({
            "pid": 7, "comm": "containerd-shim", "role": "shim", "impostor": ["kubelet", {"program": "acme"}], "state": "S",
            "cgroup": "/kubepods/besteffort/podu1/c1", "cpuCgroup": "/acme.slice", "containerId": "c1", "podUid": "u1",
            "blocked": [{"tid": 8, "wchan": "acme_wait", "stack": ["acme_lock [acme]", "nfs4_acme"]}],
            "command": ["/acme/conmon", "-c", "c1", "-n", "k8s_app_db-0_shop_u1_0", "--exit-dir=/acme", "-namespace", "acme",
                "--address", "/acme.sock", "checkpoint"],
        });
        let sample = json!({
            "processes": {"7": process}, "mounts": [mount], "pids": [{"path": "/acme", "current": 1, "max": 2}],
            "frozen": [{"path": "/acme", "containerId": "c1", "podUid": "u1", "isV1": false}],
        });
        let wait = json!({
            "reason": "KR04", "pid": 7, "tid": 8, "function": "acme_wait", "stack": ["acme_wait"],
            "owner": {"kind": "mounted", "source": "acme", "fileSystem": "acme",
                "daemon": {"process": {"name": "acme", "pid": 9}, "isStopped": false}},
            "facts": [Fact::from(FactKind::ItWritesTo { path: "/acme".into() })], "mount": mount,
            "programs": 1, "lasted": duration,
        });
        let host = json!({
            "first": sample, "second": [duration, sample], "networkPlugins": ["acme-cni"],
            "disks": [{"directories": [{"usage": "the runtime's root", "path": "/acme"}],
                "disk": {"device": "/dev/acme", "kind": "ext4"}}],
            "overdueIds": {"7": "c1"}, "waits": [wait], "livingExits": [{"id": "c1", "pid": 7}],
            "clients": {"connections": 1, "waiting": 0,
                "clients": [{"pid": 7, "comm": "acme", "connections": 1, "unread": 0}]},
            "leftOverShims": [{"pid": 7, "id": "c1", "pod": pod, "bundle": "unknown"}],
        });
        let kubelet = json!({
            "config": {"endpoint": {"value": "unix:///acme.sock", "source": "acme"}, "cgroupDriver": "acme",
                "requestTimeout": {"value": duration, "source": "acme"}},
            "startError": {"id": "KP001", "title": "acme", "severity": "error", "confidence": "certain",
                "message": "acme", "field": "acme", "file": "/acme", "kubeletReason": "acme", "fix": "acme"},
            "certificates": [{"path": "/acme", "usage": "client", "isExpired": true, "at": 1,
                "isReplacedAtStart": false}],
            "healthz": {"failing": {"status": 500, "text": "acme"}},
            "requests": [["kubelet /healthz", "ok", duration]], "notAccepted": "acme",
            "programVersion": "v1.34.2-acme",
            "stuckPods": [{"pod": pod, "owner": "u2", "since": "2026-11-27T00:00:00Z", "isEnding": true}],
            "first": {"at": "2026-11-27T00:00:00Z", "metrics": {"version": "v1.34.2-acme"}},
        });
        let journal = json!({
            "tooLarge": "acme", "nameReserved": "acme", "blockedTasks": ["acme"], "serverSilent": "acme",
            "lockups": ["acme"], "gpuError": "acme", "outOfMemory": "acme", "exhausted": "acme", "watchdog": "acme",
            "containerdVersion": "v2.1-acme", "criPluginError": "acme", "configUnread": "acme",
            "kubeletRuns": [{"pid": 7, "has_started": false, "reason": "acme", "continues": false}],
            "failingPods": [{"pod": pod, "step": "createSandbox", "cause": "noSpace", "plugin": "acme", "words": "acme",
                "path": "/acme", "failures": 3, "first": "2026-11-27T00:00:00Z", "last": "2026-11-27T00:00:00Z"}],
        });
        let refused = json!({"refused": {"at": {"file": "/acme", "line": 1, "column": 1}, "why": "acme"}});
        let facts = json!({
            "takenAt": "2026-11-27T00:00:00Z", "socket": "/acme.sock", "host": host, "kubelet": kubelet,
            "journal": journal, "systemd": {"answered": "acme"}, "cniDirectory": "/acme",
            "runtimeStart": {"config": {"path": "/acme", "fault": refused, "root": "/acme", "cniDirectory": "/acme"},
                "inotify": {"used": 1, "limit": 2, "largest": ["acme", 7, 1]}},
            "names": [{"id": "c1", "pod": pod, "container": "app", "sandboxId": "s1"}],
            "notChecked": [{"what": "acme", "why": "acme"}], "endedEarly": "acme",
        });
        serde_json::from_value(facts).unwrap()
    }

    #[test]
    fn holder_of_a_call_is_written_again_without_its_name() {
        let process: ProcessRef = serde_json::from_value(json!({"name": "acme-hook", "pid": 7})).unwrap();
        let holder = Fact::from(FactKind::CommandWorks { process, age: Duration::from_secs(95).into() });
        let culprit = json!({"rpc": "ContainerStatus", "id": "c1", "waitedSeconds": 12.0, "outcome": "silent",
            "confidence": "certain", "holder": holder.to_string(), "holderFact": holder});
        let mut culprit: CulpritReport = serde_json::from_value(culprit).unwrap();
        assert!(holder.to_string().starts_with("acme-hook[7] works on it"), "{holder}");
        Pseudonyms::default().rename(&mut culprit);
        assert_eq!(culprit.holder.unwrap(), holder.to_string().replace("acme-hook", "process-1"));
        let of_older_release = json!({"rpc": "ContainerStatus", "id": "c1", "waitedSeconds": 12.0,
            "outcome": "silent", "confidence": "certain", "holder": "acme-hook[7]"});
        let mut culprit: CulpritReport = serde_json::from_value(of_older_release).unwrap();
        Pseudonyms::default().rename(&mut culprit);
        assert_eq!(culprit.holder.unwrap(), "(text of 12 bytes)");
    }

    #[test]
    fn no_name_in_any_fact_of_a_node_is_left() {
        let (mut facts, marks) = marked(&node_facts());
        assert!(marks.len() > 100, "{}", marks.len());
        Pseudonyms::default().rename(&mut facts);
        let after = json::text(&facts).unwrap();
        let left: Vec<_> = marks.iter().filter(|mark| after.contains(mark.as_str())).collect();
        assert!(left.is_empty(), "{left:?} in {after}");
        assert!(NodeFacts::read(after.as_bytes()).is_some(), "a replay reads it: {after}");
    }

    #[test]
    fn facts_of_a_node_keep_known_programs_functions_and_the_ids_in_paths() {
        let mut names = Pseudonyms::default();
        let (uid, id) = ("0123-4567-89ab-cdef", "c".repeat(64));
        let mut renamed = |kind, text: &str| names.replace_name(kind, text);
        for path in [
            format!("/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{id}.scope", uid.replace('-', "_")),
            format!("/kubepods/burstable/pod{uid}/{id}"),
            format!("/system.slice/kubepods-pod{uid}.slice:cri-containerd:{id}"),
            format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~nfs"),
        ] {
            assert_eq!(renamed(NameKind::NodePath, &path), path);
        }
        let anna = format!("/home/anna/anna-{id}.scope");
        assert_eq!(renamed(NameKind::NodePath, &anna), format!("/home/part-1/{id}"));
        assert_eq!(renamed(NameKind::NodePath, "/pods/u1/anna"), "/pods/id-1/part-1");
        assert_eq!(renamed(NameKind::Id, "u1"), "id-1");
        assert_eq!(renamed(NameKind::Function, "rtnl_acme acme_lock nfs_acme"), "rtnl_ function-1 nfs");
        assert_eq!(renamed(NameKind::FileSystem, "fuse.acmefs"), "fuse");
        assert_eq!(renamed(NameKind::Refusal, "unknown flag: --acme"), "unknown flag: ");
        let command = ["/opt/acme/conmon", "-c", &id, "-n", "k8s_POD_db-0_shop_u1_3", "--acme=x"];
        let mut command: Arguments = command.into_iter().collect();
        names.rename(&mut command);
        assert_eq!(*command, ["conmon", "-c", &id, "-n", "k8s_POD_pod-1_namespace-1_id-1_0", ""]);
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
        let event = json!({"kind": "Event", "name": "app", "pod": {"name": "db-0", "namespace": "shop"}});
        let renamed = json!({"kind": "Event", "name": "container-1", "pod": {"name": "pod-1", "namespace": "namespace-1"}});
        assert_eq!(names.replace_value("", "", event), renamed);
    }

    #[test]
    fn further_names_get_their_hashes_as_pseudonyms_and_are_found_again() {
        let mut names = Pseudonyms::default();
        let last = 2 * MAX_NUMBERED;
        let mut pseudonyms = std::collections::HashSet::new();
        for number in 1..=last {
            pseudonyms.insert(names.pseudonym(prefix::POD, &number.to_string()));
        }
        assert_eq!(
            (names.numbers.len(), pseudonyms.len(), names.count()),
            (MAX_NUMBERED, last, MAX_NUMBERED)
        );
        for (pod, is_numbered) in [("1", true), ("99999", false)] {
            let pseudonym = names.pseudonym(prefix::POD, pod);
            assert_eq!(pseudonym.len() < "pod-0123456789abcdef".len(), is_numbered, "{pseudonym}");
            assert!(pseudonyms.contains(&pseudonym), "{pseudonym} stays the same");
        }
        let hash = |names: &mut Pseudonyms, prefix| names.pseudonym(prefix, "99999").replace(prefix, "");
        assert_ne!(hash(&mut names, prefix::NAMESPACE), hash(&mut names, prefix::POD));
    }

    /// Returns a report of an incident about a pod.
    fn report(pod: &str) -> HealthReport {
        let of = Item {
            id: "0cfd283c17410cfd".to_owned(),
            pod: Some(PodRef { uid: "a1".to_owned(), namespace: "shop".to_owned(), name: pod.to_owned() }),
            container: Some("app".to_owned()),
        };
        let facts: Vec<Fact> = [
            FactKind::StatusHangs {
                call: Call { rpc: Rpc::ContainerStatus, of: Some(of) },
                and: None,
                others: 0,
            },
            FactKind::LastMessage { message: "token hunter2 is expired".into() },
        ]
        .map(Fact::from)
        .into();
        let finding = json!({
            "id": "D01", "title": facts[0].to_string(), "severity": "critical", "confidence": "certain",
            "phase": "status", "evidence": [facts[1].to_string()], "facts": facts, "ids": ["0cfd283c17410cfd"],
            "steps": [{"purpose": format!("delete {pod}"), "command": format!("kubectl delete pod {pod}"),
                "changesState": true}],
        });
        let report = json!({
            "apiVersion": "plegctl/v1", "kind": "HealthReport", "takenAt": "2026-11-27T00:00:00Z", "node": pod,
            "runtime": {"endpoint": format!("unix:///home/{pod}")}, "durationSeconds": 1.5,
            "verdict": "unhealthy", "phase": "status", "summary": format!("{} now", facts[0]),
            "primary": finding.clone(), "findings": [finding], "probes": [], "abandonedCalls": 0,
            "notChecked": [{"what": "ListContainers", "why": format!("no answer about {pod}")}],
            "keep": [{"purpose": format!("save {pod}"), "changesState": false}],
        });
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn words_of_a_diagnosis_and_of_its_incident_are_written_again_from_renamed_facts() {
        // `verdict` has the word too, and keeps it.
        let report = report("unhealthy");
        let mut names = Pseudonyms::default();
        let document =
            StoredDocument { kind: kind::DIAGNOSIS, text: json::text(&report).unwrap().into(), inflated: 0 };
        let mut entry = CaptureEntry { wall: 1, mono: 1, body: Some(Body::Document(document)) };
        assert!(names.entry(&mut entry, None));
        let Some(Body::Document(document)) = entry.body else { panic!("a document stays a document") };
        let left: HealthReport = serde_json::from_slice(&document.text).unwrap();
        let primary = left.primary.unwrap();
        let title = "ContainerStatus of namespace-1/pod-1/container-1 does not answer";
        assert_eq!((left.summary.as_str(), primary.title.as_str()), (title, title));
        assert_eq!(primary.evidence, ["its last message: (text of 24 bytes)"]);
        assert_eq!((left.verdict, left.node.as_str()), (Verdict::Unhealthy, "node-1"));
        assert!(primary.steps.is_empty() && left.keep.is_empty());
        assert_eq!(left.not_checked[0].what, "ListContainers");

        let call = Call { rpc: Rpc::Version, of: None };
        let why = Fact::from(FactKind::CallIsOpen { call, waited: 2.0.into() });
        let mut incident = Incident {
            verdict: "unhealthy".to_owned(),
            summary: report.verdict_fact().to_string(),
            primary: json::text(report.primary.as_ref().unwrap()).unwrap(),
            why: why.to_string(),
            reason: json::text(&why).unwrap(),
            ..Incident::default()
        };
        names.replace_incident(&mut incident);
        assert_eq!(incident.summary, format!("UNHEALTHY: {title} (D01, certain)"));
        assert_eq!(incident.why, "Version has not been answered for 2s");
        let later = json!({"id": "D99", "title": "unhealthy"}).to_string();
        let mut incident = Incident { primary: later, reason: "{".to_owned(), ..incident };
        names.replace_incident(&mut incident);
        assert_eq!((incident.primary.as_str(), incident.reason.as_str()), ("", ""));
        assert!(incident.summary.starts_with("(text of ") && incident.why.starts_with("(text of "));
    }

    #[test]
    fn a_diagnosis_of_another_release_that_nobody_can_read_is_left_out() {
        let readable = json::text(&report("db-0")).unwrap();
        let with_later_rule = readable.replace("\"D01\"", "\"D99\"");
        let of_other_kind = readable.replace("HealthReport", "LaterReport");
        for (text, stays) in
            [(readable.as_str(), true), (&with_later_rule, false), (&of_other_kind, false), ("{", false)]
        {
            let document =
                StoredDocument { kind: kind::DIAGNOSIS, text: text.to_owned().into(), inflated: 0 };
            let mut entry = CaptureEntry { wall: 1, mono: 1, body: Some(Body::Document(document)) };
            assert_eq!(Pseudonyms::default().entry(&mut entry, None), stays, "{text}");
        }
    }

    #[test]
    fn no_name_in_any_text_of_a_report_is_left() {
        let (mut report, marks) = marked(&report("db-0"));
        assert!(marks.len() > 20, "{marks:?}");
        Pseudonyms::default().rename(&mut report);
        let after = json::text(&report).unwrap();
        let left: Vec<_> = marks.iter().filter(|mark| after.contains(mark.as_str())).collect();
        assert!(left.is_empty(), "{left:?} in {after}");
    }

    #[test]
    fn relist_repeats_the_renamed_error_of_its_list_call() {
        let error = Error::Runtime { rpc: Rpc::ListContainers, code: Code::Unknown, message: "anna".into() };
        let mut names = Pseudonyms::default();
        let outcome = RecordedOutcome::Failed(error.clone());
        let mut ended = CallFinished::new(1, Duration::ZERO, &outcome);
        names.replace_error(&mut ended, Some(Rpc::ListContainers));
        assert_eq!(names.text(&error.to_string()), error.to_string().replace("anna", "(text of 4 bytes)"));
        assert_eq!(names.text("anna"), "(text of 4 bytes)");
        let waited = Duration::from_secs(2);
        let unfinished = Error::Unfinished { rpc: Rpc::ListContainers, waited, received: 40 };
        let mut ended = CallFinished::new(1, waited, &RecordedOutcome::Failed(unfinished));
        names.replace_error(&mut ended, Some(Rpc::ListContainers));
        assert_eq!(ended.message, "40");
    }

    #[test]
    fn generated_id_stays_and_any_other_is_replaced() {
        let mut names = Pseudonyms::default();
        let id = "0cfd283c17410cfd283c17410cfd283c1741";
        assert_eq!(names.keep_generated_id(id), id);
        assert_eq!(names.keep_generated_id("anna"), "id-1");
    }
}
