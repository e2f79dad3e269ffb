//! Exports a part of a capture to one file, with the original names or without them.
//!
//! The file is a capture like any other. For each request it also contains the last answer before the part, so that a replay
//! of the part finds the same answers as a replay of the whole capture.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use prost::bytes::Bytes;

use super::anonymise::Pseudonyms;
use super::entry::{Body, CaptureEntry, StoredMessage, rpc};
use super::keeper::{Keeper, ListKey};
use super::read::Capture;
use super::recent::Recent;
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
    /// Whether the part contains this time.
    pub fn has(self, wall: Wall) -> bool {
        self.from.is_none_or(|from| wall >= from) && self.to.is_none_or(|to| wall <= to)
    }
}

/// The counts of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The number of entries.
    pub entries: u64,
    /// The number of replaced names.
    pub names: usize,
    /// The number of answers, messages and documents that were left out, because unpacking them exceeds the limit.
    pub left_out: u64,
}

/// Writes a part of `capture` to `out`.
pub fn export(
    capture: &Capture,
    range: Range,
    mut names: Option<Pseudonyms>,
    out: &mut dyn Write,
) -> io::Result<Exported> {
    if let Some(names) = &mut names {
        register_names(capture, names);
    }
    let before = answers_before(capture, range);
    let (keeper, kept) = (Keeper::new(), Recent::default());
    let mut writer = ExportWriter { out, keeper, kept, calls: HashMap::new(), session: 0 };
    writer.out.write_all(&segment::header())?;
    let mut exported = Exported::default();
    for (number, state) in capture.segments.iter().enumerate() {
        let Ok(bytes) = store::read(&state.path) else { continue };
        if segment::check(&bytes).is_err() {
            continue;
        }
        for (_, mut entry) in Entries::of(&bytes) {
            if !writer.wants(&entry, range, &before) {
                continue;
            }
            let refusals = capture.refusals();
            if let Some(Body::CallFinished(ended)) = &mut entry.body {
                let ids = ended.answers.iter().map(|answer| (number, answer.number));
                let messages = capture.messages_with_ids(ids);
                ended.omitted |= messages.is_none();
                ended.answers = messages.unwrap_or_default().into_iter().map(super::entry::raw).collect();
            }
            if let Some(Body::StreamMessage(streamed)) = &mut entry.body {
                let Some(message) = capture.message((number, streamed.answer.number)) else {
                    exported.left_out += u64::from(capture.refusals() > refusals);
                    continue;
                };
                streamed.answer = super::entry::raw(message);
            }
            if let Some(Body::Document(document)) = &mut entry.body {
                let Some(text) = capture.document(document) else {
                    exported.left_out += u64::from(capture.refusals() > refusals);
                    continue;
                };
                (document.text, document.inflated) = (text, 0);
            }
            exported.left_out += u64::from(capture.refusals() > refusals);
            if let Some(names) = &mut names {
                let of = writer.rpc_of(&entry);
                names.entry(&mut entry, of);
            }
            writer.write(entry)?;
            exported.entries += 1;
        }
    }
    exported.names = names.map_or(0, |names| names.count());
    Ok(exported)
}

/// Registers all names, before the first text that may contain one of them is written.
fn register_names(capture: &Capture, names: &mut Pseudonyms) {
    for session in &capture.sessions {
        names.node(&session.session.node);
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

/// Returns for each request the last call before the part, as session id and call number.
fn answers_before(capture: &Capture, range: Range) -> HashSet<(u64, u64)> {
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
    keeper: Keeper,
    /// The numbers of messages that were written recently.
    kept: Recent<Option<ListKey>, u32>,
    /// The open calls of the export, with the key of the requested list.
    calls: HashMap<(u64, u64), (Rpc, Option<ListKey>)>,
    session: u64,
}

impl ExportWriter<'_> {
    /// Whether an entry belongs to the part. The end of a call belongs to it if the start of the call does.
    fn wants(&mut self, entry: &CaptureEntry, range: Range, before: &HashSet<(u64, u64)>) -> bool {
        let wall = Wall::from_nanos(entry.wall);
        match &entry.body {
            Some(Body::Session(session)) => {
                self.session = session.id;
                true
            }
            // Each segment repeats the open calls; the export contains each call once.
            Some(Body::CallStarted(started)) => {
                let call = (self.session, started.call);
                !self.calls.contains_key(&call) && (range.has(wall) || before.contains(&call))
            }
            Some(Body::CallFinished(ended)) => self.calls.contains_key(&(self.session, ended.call)),
            Some(Body::StreamMessage(streamed)) => {
                range.has(wall) && self.calls.contains_key(&(self.session, streamed.call))
            }
            Some(Body::Incident(incident)) => {
                let ends = Wall::known(incident.to);
                range.from.is_none_or(|from| ends.is_none_or(|to| to >= from))
                    && range.to.is_none_or(|to| Wall::from_nanos(incident.from) <= to)
            }
            Some(_) => range.has(wall),
            None => false,
        }
    }

    fn rpc_of(&self, entry: &CaptureEntry) -> Option<Rpc> {
        match &entry.body {
            Some(Body::CallFinished(ended)) => {
                self.calls.get(&(self.session, ended.call)).map(|(rpc, _)| *rpc)
            }
            _ => None,
        }
    }

    fn write(&mut self, mut entry: CaptureEntry) -> io::Result<()> {
        match &mut entry.body {
            Some(Body::CallStarted(started)) => {
                if let Some(rpc) = rpc(started.rpc) {
                    let list = matches!(rpc, Rpc::ListPodSandbox | Rpc::ListContainers);
                    let key = list.then(|| (started.rpc, self.keeper.hash(&started.request)));
                    self.calls.insert((self.session, started.call), (rpc, key));
                }
            }
            Some(Body::CallFinished(ended)) => {
                let list = self.calls.remove(&(self.session, ended.call)).and_then(|(_, list)| list);
                for answer in &mut ended.answers {
                    let bytes = std::mem::take(&mut answer.bytes);
                    if let Some(number) = self.kept.get(list, &bytes) {
                        *answer = StoredMessage { number: *number, ..StoredMessage::default() };
                        continue;
                    }
                    *answer = self.keeper.keep(bytes.clone(), list);
                    self.kept.put(list, bytes, answer.number, 0);
                }
            }
            Some(Body::StreamMessage(_)) => self.keeper.keep_all(&mut entry, None),
            Some(Body::Document(document)) => {
                (document.text, document.inflated) = super::pack::packed(std::mem::take(&mut document.text));
            }
            _ => {}
        }
        self.out.write_all(&framed(&entry))
    }
}
