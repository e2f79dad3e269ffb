//! Names replaced by others, the same by the same: pods, namespaces, containers, images, labels, addresses, the node.
//!
//! Ids, UIDs, states, attempts and times stay, because PLEG lives on them. What a text says is gone through word by word:
//! every word that is a name anywhere in the capture is replaced there too.

use std::collections::HashMap;

use prost::bytes::Bytes;
use serde_json::Value;

use super::entry::{Body, Entry};
use crate::cri::{Rpc, rename};

/// Keys of a document under which there may be names.
const TEXTS: [&str; 15] = [
    "name",
    "namespace",
    "node",
    "title",
    "summary",
    "evidence",
    "next",
    "message",
    "error",
    "what",
    "why",
    "reason",
    "value",
    "path",
    "source",
];

/// Names and what stands for them.
#[derive(Debug, Default)]
pub struct Names {
    known: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
}

/// Words that are everybody's.
fn is_common(word: &str) -> bool {
    word.len() < 2
        || word.bytes().all(|byte| byte.is_ascii_digit())
        || ["sha256", "pause", "v1", "latest", "true", "false", "api", "file", "http"].contains(&word)
}

impl Names {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// What stands for `name`, which is a `kind` of thing.
    fn alias(&mut self, kind: &'static str, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        if let Some(alias) = self.known.get(name) {
            return alias.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let alias = format!("{kind}-{count}");
        self.known.insert(name.to_owned(), alias.clone());
        alias
    }

    /// Learns the name of the node.
    pub fn node(&mut self, name: &str) {
        self.alias("node", name);
    }

    /// Learns every name in an answer.
    pub fn answer(&mut self, rpc: Rpc, message: &Bytes) -> Option<Bytes> {
        let mut parts = Vec::new();
        let renamed = rename::answer(rpc, message, &mut |kind, name| {
            // An image or a path is said in parts elsewhere.
            if matches!(kind, rename::Kind::Image | rename::Kind::Path | rename::Kind::Value) {
                parts.extend(words(name).filter(|word| !is_common(word)).map(str::to_owned));
            }
            self.alias(word_for(kind), name)
        });
        for part in parts {
            // Ids are no names, and whoever replaces a part of one loses it.
            if !is_id(&part) {
                self.alias("word", &part);
            }
        }
        renamed
    }

    /// Replaces the names in an entry; `of` is the RPC of a call that ends.
    pub fn entry(&mut self, entry: &mut Entry, of: Option<Rpc>) {
        match &mut entry.body {
            Some(Body::Session(session)) => session.node = self.alias("node", &session.node),
            Some(Body::Asked(asked)) => {
                let rpc = super::entry::rpc(asked.rpc);
                let renamed = rpc.and_then(|rpc| {
                    rename::request(rpc, &asked.request, &mut |kind, name| self.alias(word_for(kind), name))
                });
                asked.request = renamed.unwrap_or_default();
            }
            Some(Body::Ended(ended)) => {
                ended.message = self.text(&ended.message);
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
            Some(Body::Relist(relist)) => relist.error = self.text(&relist.error),
            Some(Body::Document(document)) => {
                document.text = match serde_json::from_slice::<Value>(&document.text) {
                    Ok(value) => self.value(value, false).to_string().into(),
                    Err(_) => Bytes::from_static(b"null"),
                };
            }
            Some(Body::Incident(incident)) => {
                incident.why = self.text(&incident.why);
                incident.summary = self.text(&incident.summary);
                if let Ok(value) = serde_json::from_str::<Value>(&incident.primary) {
                    incident.primary = self.value(value, false).to_string();
                }
            }
            Some(Body::Lost(lost)) => lost.why = self.text(&lost.why),
            Some(Body::Stopped(_) | Body::Jump(_)) | None => {}
        }
    }

    fn value(&self, value: Value, text: bool) -> Value {
        match value {
            Value::String(words) if text => Value::String(self.text(&words)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item, text)).collect(),
            Value::Object(fields) => {
                let field = |(key, value)| {
                    let text = TEXTS.contains(&String::as_str(&key));
                    let value = self.value(value, text);
                    (key, value)
                };
                Value::Object(fields.into_iter().map(field).collect())
            }
            other => other,
        }
    }

    /// A text with every word replaced that is a name.
    fn text(&self, text: &str) -> String {
        if let Some(alias) = self.known.get(text) {
            return alias.clone();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.find(|letter: char| !is_part(letter)).unwrap_or(rest.len());
            let (head, tail) = rest.split_at(word);
            let bare = head.trim_end_matches(['.', '-']);
            match self.known.get(head).or_else(|| self.known.get(bare)) {
                Some(alias) => out.push_str(alias),
                None => out.push_str(head),
            }
            let mut letters = tail.chars();
            if let Some(between) = letters.next() {
                out.push(between);
            }
            rest = letters.as_str();
        }
        out
    }
}

/// What a name is made of.
fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '.' | '-')
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !is_part(letter)).filter(|word| !word.is_empty())
}

fn is_id(word: &str) -> bool {
    let hexadecimal = word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    hexadecimal && word.len() >= 12
}

const fn word_for(kind: rename::Kind) -> &'static str {
    match kind {
        rename::Kind::Namespace => "namespace",
        rename::Kind::Pod => "pod",
        rename::Kind::Container => "container",
        rename::Kind::Image => "image",
        rename::Kind::Key => "example.com/label",
        rename::Kind::Value => "value",
        rename::Kind::Address => "address",
        rename::Kind::Path => "/path",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_loses_every_name_and_nothing_else() {
        let mut names = Names::default();
        for (kind, name) in [("namespace", "shop"), ("pod", "db-0"), ("container", "postgres")] {
            names.alias(kind, name);
        }
        let text = "ContainerStatus of shop/db-0/postgres hangs; shopping is open, db-0.";
        let replaced = "ContainerStatus of namespace-1/pod-1/container-1 hangs; shopping is open, pod-1";
        assert_eq!(names.text(text), replaced);
        assert_eq!(names.text("shop"), "namespace-1");
        assert_eq!(names.text(""), "");
    }

    #[test]
    fn a_verdict_is_no_name_even_if_a_pod_is_called_so() {
        let mut names = Names::default();
        names.alias("pod", "unhealthy");
        let value = serde_json::json!({ "verdict": "unhealthy", "title": "unhealthy hangs" });
        let expected = serde_json::json!({ "verdict": "unhealthy", "title": "pod-1 hangs" });
        assert_eq!(names.value(value, false), expected);
    }
}
