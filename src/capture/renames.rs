//! [`Renames`] gives a few things other names, in texts and in the entries of a capture: the nodes of a simulated fleet share
//! a few recordings, and each node has a name of its own.

use prost::bytes::Bytes;

use super::entry::{Body, CaptureEntry};
use crate::cri::{Rpc, rename};

/// Names and what replaces them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renames(Vec<(String, String)>);

impl Renames {
    /// Replaces each first name by the second one.
    pub fn new(names: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(names.into_iter().filter(|(from, _)| !from.is_empty()).collect())
    }

    /// Whether no name is replaced.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the names in a text, where they are not parts of other words.
    pub fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (from, to)| replaced(&text, from, to))
    }

    /// Replaces the names in a document.
    pub fn bytes(&self, document: Vec<u8>) -> Vec<u8> {
        if self.is_empty() {
            return document;
        }
        self.text(&String::from_utf8_lossy(&document)).into_bytes()
    }

    fn replace(&self, text: &mut String) {
        *text = self.text(text);
    }

    /// Replaces the names in an entry whose content is unpacked; `answered_rpc` is the RPC if the entry is the end of a call.
    /// Returns true, because no entry has to be left out.
    pub(super) fn entry(&self, entry: &mut CaptureEntry, answered_rpc: Option<Rpc>) -> bool {
        let answer = |rpc: Rpc, message: &Bytes| {
            let renamed = rename::answer(rpc, message, &mut |_, text| self.text(text));
            renamed.unwrap_or_else(|| message.clone())
        };
        match &mut entry.body {
            Some(Body::Session(session)) => self.replace(&mut session.node),
            Some(Body::CallFinished(ended)) => {
                self.replace(&mut ended.message);
                for stored in &mut ended.answers {
                    stored.bytes = answered_rpc.map_or_else(Bytes::new, |rpc| answer(rpc, &stored.bytes));
                }
            }
            Some(Body::Relist(relist)) => self.replace(&mut relist.error),
            Some(Body::Document(document)) => document.text = self.bytes(document.text.to_vec()).into(),
            Some(Body::Incident(incident)) => {
                for text in
                    [&mut incident.why, &mut incident.reason, &mut incident.summary, &mut incident.primary]
                {
                    self.replace(text);
                }
            }
            // A request contains only ids.
            Some(Body::CallStarted(_) | Body::Lost(_) | Body::Stopped(_) | Body::Jump(_)) | None => {}
        }
        true
    }
}

/// Replaces `from`, where neither a letter nor a digit is next to it: the UID of a pod may contain a short name.
fn replaced(text: &str, from: &str, to: &str) -> String {
    let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(from) {
        out.push_str(before);
        let last = before.chars().next_back().or_else(|| out.chars().next_back());
        let is_part = is_word(last) || is_word(after.chars().next());
        out.push_str(if is_part { from } else { to });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_replaced_only_where_it_is_a_word() {
        let renames = Renames::new(
            [("sim-node", "node-7"), ("db-0", "db-7")].map(|(one, other)| (one.to_owned(), other.to_owned())),
        );
        for (text, expected) in [
            ("etcd-sim-node of sim-node", "etcd-node-7 of node-7"),
            ("shop/db-0/postgres", "shop/db-7/postgres"),
            ("1fdb-0c11, db-01, adb-0", "1fdb-0c11, db-01, adb-0"),
            ("db-0db-0 db-0", "db-0db-0 db-7"),
            ("", ""),
        ] {
            assert_eq!(renames.text(text), expected);
        }
        assert!(Renames::default().is_empty());
    }
}
