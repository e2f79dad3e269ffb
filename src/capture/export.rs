//! A part of a capture in one file, with its names if wanted, or without.
//!
//! The file is a capture like any other. What was known at its beginning comes along: of every question the last answer
//! before, so that the part can be asked whatever the whole could be.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use prost::bytes::Bytes;

use super::anonymise::Names;
use super::entry::{Answer, Body, Entry, rpc};
use super::keeper::{Keeper, ListKey};
use super::read::Capture;
use super::recent::Recent;
use super::segment::{self, Entries, framed};
use super::store;
use crate::clock::Wall;
use crate::cri::Rpc;

/// Which part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Not what was before.
    pub from: Option<Wall>,
    /// Not what came after.
    pub to: Option<Wall>,
}

impl Range {
    /// Whether it is of that part.
    pub fn has(self, wall: Wall) -> bool {
        self.from.is_none_or(|from| wall >= from) && self.to.is_none_or(|to| wall <= to)
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Entries.
    pub entries: u64,
    /// Names that were replaced.
    pub names: usize,
    /// Answers, messages and documents that were left out because unpacking them would have cost too much.
    pub left_out: u64,
}

/// Writes a part of `capture` to `out`.
pub fn export(
    capture: &Capture,
    range: Range,
    mut names: Option<Names>,
    out: &mut dyn Write,
) -> io::Result<Exported> {
    if let Some(names) = &mut names {
        learn(capture, names);
    }
    let before = answers_before(capture, range);
    let (keeper, kept) = (Keeper::new(), Recent::default());
    let mut writer = Writer { out, keeper, kept, calls: HashMap::new(), session: 0 };
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
            if let Some(Body::Ended(ended)) = &mut entry.body {
                let places = ended.answers.iter().map(|answer| (number, answer.number));
                let messages = capture.messages_at(places);
                ended.omitted |= messages.is_none();
                ended.answers = messages.unwrap_or_default().into_iter().map(super::entry::raw).collect();
            }
            if let Some(Body::Told(told)) = &mut entry.body {
                let Some(message) = capture.message((number, told.answer.number)) else {
                    exported.left_out += u64::from(capture.refusals() > refusals);
                    continue;
                };
                told.answer = super::entry::raw(message);
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

/// Every name must be known before the first text that may hold it is written.
fn learn(capture: &Capture, names: &mut Names) {
    for run in &capture.runs {
        names.node(&run.session.node);
    }
    for call in &capture.calls {
        let messages = call.end.as_ref().and_then(|end| capture.messages(end));
        for message in messages.into_iter().flatten() {
            names.answer(call.rpc, &message);
        }
    }
    for told in &capture.told {
        if let Some(message) = capture.message(told.place) {
            names.answer(Rpc::GetContainerEvents, &message);
        }
    }
}

/// Of every question the last call that was answered before the part begins.
fn answers_before(capture: &Capture, range: Range) -> HashSet<(u64, u64)> {
    let Some(from) = range.from else { return HashSet::new() };
    let mut last: HashMap<(Rpc, &Bytes), (u64, u64)> = HashMap::new();
    for call in capture.calls.iter().filter(|call| call.wall < from) {
        if let Some(run) = capture.runs.get(call.asked.session) {
            last.insert((call.rpc, &call.request), (run.session.id, call.number));
        }
    }
    last.into_values().collect()
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    keeper: Keeper,
    /// The numbers of messages that were written lately.
    kept: Recent<Option<ListKey>, u32>,
    /// Calls that were written and have no end yet, with the list they ask for.
    calls: HashMap<(u64, u64), (Rpc, Option<ListKey>)>,
    session: u64,
}

impl Writer<'_> {
    /// Whether an entry belongs to the part. The end of a call does if its beginning did.
    fn wants(&mut self, entry: &Entry, range: Range, before: &HashSet<(u64, u64)>) -> bool {
        let wall = Wall::from_nanos(entry.wall);
        match &entry.body {
            Some(Body::Session(session)) => {
                self.session = session.id;
                true
            }
            // What is said again at the head of a segment is not said twice.
            Some(Body::Asked(asked)) => {
                let call = (self.session, asked.call);
                !self.calls.contains_key(&call) && (range.has(wall) || before.contains(&call))
            }
            Some(Body::Ended(ended)) => self.calls.contains_key(&(self.session, ended.call)),
            Some(Body::Told(told)) => range.has(wall) && self.calls.contains_key(&(self.session, told.call)),
            Some(Body::Incident(incident)) => {
                let ends = Wall::known(incident.to);
                range.from.is_none_or(|from| ends.is_none_or(|to| to >= from))
                    && range.to.is_none_or(|to| Wall::from_nanos(incident.from) <= to)
            }
            Some(_) => range.has(wall),
            None => false,
        }
    }

    fn rpc_of(&self, entry: &Entry) -> Option<Rpc> {
        match &entry.body {
            Some(Body::Ended(ended)) => self.calls.get(&(self.session, ended.call)).map(|(rpc, _)| *rpc),
            _ => None,
        }
    }

    fn write(&mut self, mut entry: Entry) -> io::Result<()> {
        match &mut entry.body {
            Some(Body::Asked(asked)) => {
                if let Some(rpc) = rpc(asked.rpc) {
                    let list = matches!(rpc, Rpc::ListPodSandbox | Rpc::ListContainers);
                    let key = list.then(|| (asked.rpc, self.keeper.hash(&asked.request)));
                    self.calls.insert((self.session, asked.call), (rpc, key));
                }
            }
            Some(Body::Ended(ended)) => {
                let list = self.calls.remove(&(self.session, ended.call)).and_then(|(_, list)| list);
                for answer in &mut ended.answers {
                    let bytes = std::mem::take(&mut answer.bytes);
                    if let Some(number) = self.kept.get(list, &bytes) {
                        *answer = Answer { number: *number, ..Answer::default() };
                        continue;
                    }
                    *answer = self.keeper.keep(bytes.clone(), list);
                    self.kept.put(list, bytes, answer.number, 0);
                }
            }
            Some(Body::Told(_)) => self.keeper.keep_all(&mut entry, None),
            Some(Body::Document(document)) => {
                (document.text, document.inflated) = super::pack::packed(std::mem::take(&mut document.text));
            }
            _ => {}
        }
        self.out.write_all(&framed(&entry))
    }
}
