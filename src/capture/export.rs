//! Exports a part of a capture to one file, with the original names or with pseudonyms.
//!
//! [`export`] reads all entries of the capture in order, selects those of the part, replaces their names and writes them
//! again. The file can be read like any other capture. It also contains the last call of each request before the part, so
//! that a replay of the file finds the same answers as a replay of the whole capture.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use prost::bytes::Bytes;

use super::anonymise::Pseudonyms;
use super::answer_encoder::{AnswerEncoder, ListKey};
use super::entry::{Body, CaptureEntry, StoredMessage, rpc, unencoded};
use super::message_cache::MessageCache;
use super::read::Capture;
use super::segment::{self, Entries, framed};
use super::store;
use crate::clock::Wall;
use crate::cri::Rpc;

/// A part of a capture, by the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The beginning; `None` for the beginning of the capture.
    pub from: Option<Wall>,
    /// The end; `None` for the end of the capture.
    pub to: Option<Wall>,
}

impl Range {
    /// Whether the range contains this time.
    pub fn has(self, wall: Wall) -> bool {
        self.from.is_none_or(|from| wall >= from) && self.to.is_none_or(|to| wall <= to)
    }

    /// Whether the range contains a part of an incident, which has no end while it lasts.
    pub(super) fn overlaps(self, begins: Wall, ends: Option<Wall>) -> bool {
        self.from.is_none_or(|from| ends.is_none_or(|to| to >= from)) && self.to.is_none_or(|to| begins <= to)
    }
}

/// The counts of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The number of entries.
    pub entries: u64,
    /// The number of replaced names.
    pub names: usize,
    /// The number of entries that lost an answer, a message or a document, because unpacking it would exceed the limit.
    pub left_out: u64,
}

/// Writes the part of `capture` in `range` to `out`. With `names`, replaces all names by pseudonyms.
pub fn export(
    capture: &Capture,
    range: Range,
    mut names: Option<Pseudonyms>,
    out: &mut dyn Write,
) -> io::Result<Exported> {
    if let Some(names) = &mut names {
        register_names(capture, names);
    }
    let before = last_calls_before(capture, range);
    let (encoder, stored_numbers) = (AnswerEncoder::new(), MessageCache::default());
    let mut writer = ExportWriter { out, encoder, stored_numbers, open_calls: HashMap::new(), session: 0 };
    writer.out.write_all(&segment::header())?;
    let mut exported = Exported::default();
    for (number, state) in capture.segments.iter().enumerate() {
        let Ok(bytes) = store::read(&state.path) else { continue };
        if segment::check(&bytes).is_err() {
            continue;
        }
        for (_, mut entry) in Entries::of(&bytes) {
            if !writer.selects(&entry, range, &before) {
                continue;
            }
            let refusals = capture.refusals();
            let has_content = unpack(capture, number, &mut entry);
            exported.left_out += u64::from(capture.refusals() > refusals);
            if !has_content {
                continue;
            }
            if let Some(names) = &mut names {
                let answered_rpc = writer.rpc_of(&entry);
                names.entry(&mut entry, answered_rpc);
            }
            writer.write(entry)?;
            exported.entries += 1;
        }
    }
    exported.names = names.map_or(0, |names| names.count());
    Ok(exported)
}

/// Replaces the content of an entry by the full content. A segment stores only the number of an answer, and answers and
/// documents in packed form. Returns false if a message or document cannot be read, so that its entry is useless.
fn unpack(capture: &Capture, segment: usize, entry: &mut CaptureEntry) -> bool {
    match &mut entry.body {
        Some(Body::CallFinished(ended)) => {
            let ids = ended.answers.iter().map(|answer| (segment, answer.number));
            let messages = capture.messages_with_ids(ids);
            // The end of a call is useful without its answer too.
            ended.omitted |= messages.is_none();
            ended.answers = messages.unwrap_or_default().into_iter().map(unencoded).collect();
        }
        Some(Body::StreamMessage(streamed)) => {
            let Some(message) = capture.message((segment, streamed.answer.number)) else { return false };
            streamed.answer = unencoded(message);
        }
        Some(Body::Document(document)) => {
            let Some(text) = capture.document(document) else { return false };
            (document.text, document.inflated) = (text, 0);
        }
        _ => {}
    }
    true
}

/// Registers all names of the capture before the first text is written, because a text can contain a name that only a later
/// answer shows to be a name.
fn register_names(capture: &Capture, names: &mut Pseudonyms) {
    for session in &capture.sessions {
        names.add_node(&session.session.node);
    }
    for call in &capture.calls {
        let messages = call.end.as_ref().and_then(|end| capture.messages(end));
        for message in messages.into_iter().flatten() {
            names.answer(call.rpc, &message);
        }
    }
    for event in &capture.stream_events {
        if let Some(message) = capture.message(event.message) {
            names.answer(Rpc::GetContainerEvents, &message);
        }
    }
}

/// Returns the last call of each request before the range, as session id and call number.
fn last_calls_before(capture: &Capture, range: Range) -> HashSet<(u64, u64)> {
    let Some(from) = range.from else { return HashSet::new() };
    let mut last: HashMap<(Rpc, &Bytes), (u64, u64)> = HashMap::new();
    for call in capture.calls.iter().filter(|call| call.wall < from) {
        if let Some(run) = capture.sessions.get(call.sent.session) {
            last.insert((call.rpc, &call.request), (run.session.id, call.number));
        }
    }
    last.into_values().collect()
}

/// Writes the entries of an export.
struct ExportWriter<'a> {
    out: &'a mut dyn Write,
    encoder: AnswerEncoder,
    /// The numbers of messages that are already in the export. A repeated message is written as its number.
    stored_numbers: MessageCache<Option<ListKey>, u32>,
    /// The calls that have begun in the export but have not ended, by session id and call number. The key is that of the
    /// requested list; `None` for a call that requests no list.
    open_calls: HashMap<(u64, u64), (Rpc, Option<ListKey>)>,
    /// The id of the present session.
    session: u64,
}

impl ExportWriter<'_> {
    /// Whether the export contains an entry. It contains the end of a call if it contains the beginning, even if the call
    /// ended after the range.
    fn selects(&mut self, entry: &CaptureEntry, range: Range, before: &HashSet<(u64, u64)>) -> bool {
        let wall = Wall::from_nanos(entry.wall);
        match &entry.body {
            Some(Body::Session(session)) => {
                self.session = session.id;
                true
            }
            // Each segment repeats the open calls, but the export contains each call only once.
            Some(Body::CallStarted(started)) => {
                let call = (self.session, started.call);
                !self.open_calls.contains_key(&call) && (range.has(wall) || before.contains(&call))
            }
            Some(Body::CallFinished(ended)) => self.open_calls.contains_key(&(self.session, ended.call)),
            Some(Body::StreamMessage(streamed)) => {
                range.has(wall) && self.open_calls.contains_key(&(self.session, streamed.call))
            }
            Some(Body::Incident(incident)) => {
                range.overlaps(Wall::from_nanos(incident.from), Wall::known(incident.to))
            }
            Some(_) => range.has(wall),
            None => false,
        }
    }

    /// Returns the RPC of the call that ends with this entry; `None` for any other entry.
    fn rpc_of(&self, entry: &CaptureEntry) -> Option<Rpc> {
        let Some(Body::CallFinished(ended)) = &entry.body else { return None };
        self.open_calls.get(&(self.session, ended.call)).map(|(rpc, _)| *rpc)
    }

    /// Packs the content of one entry, writes the entry, and updates the open calls.
    fn write(&mut self, mut entry: CaptureEntry) -> io::Result<()> {
        match &mut entry.body {
            Some(Body::CallStarted(started)) => {
                if let Some(rpc) = rpc(started.rpc) {
                    let is_list = matches!(rpc, Rpc::ListPodSandbox | Rpc::ListContainers);
                    let key = is_list.then(|| (started.rpc, self.encoder.hash(&started.request)));
                    self.open_calls.insert((self.session, started.call), (rpc, key));
                }
            }
            Some(Body::CallFinished(ended)) => {
                let list = self.open_calls.remove(&(self.session, ended.call)).and_then(|(_, list)| list);
                for answer in &mut ended.answers {
                    let bytes = std::mem::take(&mut answer.bytes);
                    if let Some(number) = self.stored_numbers.get(list, &bytes) {
                        *answer = StoredMessage { number: *number, ..StoredMessage::default() };
                        continue;
                    }
                    *answer = self.encoder.encode(bytes.clone(), list);
                    self.stored_numbers.put(list, bytes, answer.number, 0);
                }
            }
            Some(Body::StreamMessage(_)) => self.encoder.encode_entry(&mut entry, None),
            Some(Body::Document(document)) => {
                (document.text, document.inflated) = super::pack::packed(std::mem::take(&mut document.text));
            }
            _ => {}
        }
        self.out.write_all(&framed(&entry))
    }
}
