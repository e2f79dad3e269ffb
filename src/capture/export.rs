//! Exports a part of a capture to one file, with the original names or with pseudonyms.
//!
//! [`export`] reads all entries of the capture in order, selects those of the part, replaces their names and writes them
//! again. The file can be read like any other capture. It also contains the last call of each request before the part, so
//! that a replay of the file finds the same answers as a replay of the whole capture.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::time::Duration;

use super::anonymise::Pseudonyms;
use super::answer_encoder::{AnswerEncoder, ListKey};
use super::entry::{Body, CaptureEntry, Lost, LostEnd, StoredMessage, rpc, unencoded};
use super::message_cache::MessageCache;
use super::read::{Capture, CaptureMoment};
use super::renames::Renames;
use super::segment::{self, framed};
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

    /// Whether the range contains a part of a period; an incident has no end while it lasts.
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
    /// The number of diagnoses that were left out because another release wrote them, so that nobody knows which of their texts
    /// are names.
    pub not_understood: u64,
}

/// Writes the part of `capture` in `range` to `out`. With `names`, replaces all names by pseudonyms. Reads one segment at a
/// time, so that the memory does not grow with the capture, if the capture was opened without an index.
pub fn export(
    capture: &Capture,
    range: Range,
    names: Option<Pseudonyms>,
    out: &mut dyn Write,
) -> io::Result<Exported> {
    let selection = Selection::within(capture, range)?;
    let Some(names) = names else { return selection.write(capture, None, out) };
    let mut names = names.with_cache_limit(capture.cache_limit());
    let exported = selection.write(capture, Some(&mut |entry, rpc| names.entry(entry, rpc)), out)?;
    Ok(Exported { names: names.count(), ..exported })
}

/// Writes the part of `capture` in `range` to `out`, with other names for a few things.
pub fn export_renamed(
    capture: &Capture,
    range: Range,
    renames: &Renames,
    out: &mut dyn Write,
) -> io::Result<Exported> {
    let mut rename = |entry: &mut CaptureEntry, rpc| renames.entry(entry, rpc);
    let rename: Option<RenameEntry<'_>> = if renames.is_empty() { None } else { Some(&mut rename) };
    Selection::within(capture, range)?.write(capture, rename, out)
}

/// Replaces the names in an entry; gets the RPC if the entry is the end of a call. Returns false if the entry must be left out.
type RenameEntry<'a> = &'a mut dyn FnMut(&mut CaptureEntry, Option<Rpc>) -> bool;

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
        Some(Body::Document(document)) => {
            let Some(text) = capture.document(document) else { return false };
            (document.text, document.inflated) = (text, 0);
        }
        _ => {}
    }
    true
}

/// Identifies a call or a relist: the id of its session, and its number.
type SessionNumber = (u64, u64);

/// The last call of a request before the range, and the last one that had ended by then.
#[derive(Default)]
struct LastCalls {
    sent: Option<SessionNumber>,
    ended: Option<SessionNumber>,
}

/// Relists as runs of successive numbers, because a range may contain very many relists: the last number of each run, by the
/// session and the first number.
#[derive(Debug, Default)]
struct RelistRuns(BTreeMap<SessionNumber, u64>);

impl RelistRuns {
    /// Adds a relist. A recorder numbers its relists in the order in which they end.
    fn add(&mut self, relist @ (session, number): SessionNumber) {
        let before = self.0.range_mut(..=relist).next_back().filter(|((of, _), _)| *of == session);
        match before {
            Some((_, last)) if number <= last.saturating_add(1) => *last = number.max(*last),
            _ => {
                self.0.insert(relist, number);
            }
        }
    }

    fn has(&self, relist @ (session, number): SessionNumber) -> bool {
        let before = self.0.range(..=relist).next_back();
        before.is_some_and(|((of, _), last)| *of == session && number <= *last)
    }
}

/// What an export contains, besides the entries whose time is in its range.
struct Selection {
    range: Range,
    /// The last call of each request before the range, and the last one that had been answered by then.
    calls_before: HashSet<SessionNumber>,
    /// The relists of which a part is in the range.
    relists: RelistRuns,
    /// The calls whose end the capture may have lost, with the time since which nobody knows whether they had ended. The
    /// entries that show this may be outside the range.
    lost_ends: HashMap<SessionNumber, u64>,
}

impl Selection {
    /// Writes these entries to `out`. Writes the same bytes each time, if no segment has been deleted in between.
    pub fn write(
        &self,
        capture: &Capture,
        mut rename: Option<RenameEntry<'_>>,
        out: &mut dyn Write,
    ) -> io::Result<Exported> {
        capture.clear_cache();
        let (encoder, stored_numbers) =
            (AnswerEncoder::new(), MessageCache::with_limit(capture.cache_limit()));
        let mut writer =
            ExportWriter { out, encoder, stored_numbers, open_calls: HashMap::new(), session: 0 };
        writer.out.write_all(&segment::header())?;
        let mut exported = Exported::default();
        capture.for_each_entry(|segment, mut entry| {
            if !writer.selects(&entry, self) {
                return Ok(());
            }
            let lost_end = self.lost_end_of(&entry, writer.session);
            self.adapt(&mut entry, writer.session);
            let refusals = capture.refusals();
            let has_content = unpack(capture, segment, &mut entry);
            exported.left_out += u64::from(capture.refusals() > refusals);
            if !has_content {
                return Ok(());
            }
            if let Some(rename) = &mut rename {
                let answered_rpc = writer.rpc_of(&entry);
                if !rename(&mut entry, answered_rpc) {
                    exported.not_understood += 1;
                    return Ok(());
                }
            }
            writer.write(entry)?;
            exported.entries += 1;
            lost_end.map_or(Ok(()), |lost_end| writer.write(lost_end))
        })?;
        Ok(exported)
    }

    /// Selects the entries of the part of `capture` in `range`.
    pub fn within(capture: &Capture, range: Range) -> io::Result<Self> {
        let id = |at: CaptureMoment| capture.sessions.get(at.session).map(|run| run.session.id);
        let lost_ends =
            capture.calls.iter().filter_map(|call| Some(((id(call.sent)?, call.number), call.lost?.mono)));
        let unfinished = capture.relists.iter().filter_map(|relist| {
            let began = relist.wall.minus(relist.ended.since(relist.began));
            Some((id(relist.began)?, relist.done.number)).filter(|_| range.overlaps(began, Some(relist.wall)))
        });
        let mut selection = Self {
            range,
            calls_before: HashSet::new(),
            relists: RelistRuns::default(),
            lost_ends: lost_ends.collect(),
        };
        unfinished.for_each(|relist| selection.relists.add(relist));
        let (mut session, mut open) = (0, HashMap::new());
        let requests = RandomState::new();
        let mut last: HashMap<(u32, u64), LastCalls> = HashMap::new();
        let is_before = |wall| range.from.is_some_and(|from| wall < from);
        capture.for_each_entry(|_, entry| {
            let wall = Wall::from_nanos(entry.wall);
            match entry.body {
                Some(Body::Session(begun)) => session = begun.id,
                Some(Body::CallStarted(started)) if is_before(wall) => {
                    // Each segment repeats the open calls.
                    let call = (session, started.call);
                    if let Entry::Vacant(place) = open.entry(call) {
                        let request = *place.insert((started.rpc, requests.hash_one(&started.request)));
                        last.entry(request).or_default().sent = Some(call);
                    }
                }
                Some(Body::CallFinished(ended)) => {
                    let call = (session, ended.call);
                    let request = open.remove(&call).filter(|_| is_before(wall));
                    if let Some(latest) = request.and_then(|request| last.get_mut(&request)) {
                        latest.ended = Some(call);
                    }
                }
                Some(Body::Relist(relist)) => {
                    let took = Duration::from_nanos(entry.mono.saturating_sub(relist.began));
                    if range.overlaps(wall.minus(took), Some(wall)) {
                        selection.relists.add((session, relist.number));
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        selection.calls_before =
            last.into_values().flat_map(|last| [last.sent, last.ended]).flatten().collect();
        Ok(selection)
    }

    /// Returns the entry that says that the end of a call may be lost, if `entry` is the start of such a call.
    fn lost_end_of(&self, entry: &CaptureEntry, session: u64) -> Option<CaptureEntry> {
        let Some(Body::CallStarted(started)) = &entry.body else { return None };
        let mono = *self.lost_ends.get(&(session, started.call))?;
        let ends = vec![LostEnd { call: started.call, mono }];
        Some(CaptureEntry { body: Some(Body::Lost(Lost { ends, since: mono, ..Lost::default() })), ..*entry })
    }

    /// Adapts an entry to the export, which is one segment and has a part of the entries.
    fn adapt(&self, entry: &mut CaptureEntry, session: u64) {
        match &mut entry.body {
            // The numbers of segments show gaps, whose lost ends the export names one by one.
            Some(Body::Session(session)) => session.segment = 0,
            Some(Body::Lost(lost)) => {
                (lost.ends, lost.more_ends) = (Vec::new(), false);
            }
            // Without the end of its relist, the call would look like a part of a relist that never ended.
            Some(Body::CallStarted(started)) if !self.relists.has((session, started.relist)) => {
                started.relist = 0;
            }
            _ => {}
        }
    }
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
    fn selects(&mut self, entry: &CaptureEntry, selection: &Selection) -> bool {
        let (range, wall) = (selection.range, Wall::from_nanos(entry.wall));
        match &entry.body {
            Some(Body::Session(session)) => {
                self.session = session.id;
                true
            }
            // Each segment repeats the open calls, but the export contains each call only once.
            Some(Body::CallStarted(started)) => {
                let call = (self.session, started.call);
                !self.open_calls.contains_key(&call)
                    && (range.has(wall) || selection.calls_before.contains(&call))
            }
            Some(Body::CallFinished(ended)) => self.open_calls.contains_key(&(self.session, ended.call)),
            Some(Body::Incident(incident)) => {
                range.overlaps(Wall::from_nanos(incident.from), Wall::known(incident.to))
            }
            Some(Body::Relist(relist)) => selection.relists.has((self.session, relist.number)),
            Some(Body::Lost(lost)) if lost.since > 0 => {
                let since = Duration::from_nanos(entry.mono.saturating_sub(lost.since));
                range.overlaps(wall.minus(since), Some(wall))
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
                    let key = rpc.is_list().then(|| (started.rpc, self.encoder.hash(&started.request)));
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
            Some(Body::Document(document)) => {
                (document.text, document.inflated) = super::pack::packed(std::mem::take(&mut document.text));
            }
            _ => {}
        }
        self.out.write_all(&framed(&entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relists_of_a_long_range_are_one_run_for_each_session() {
        let mut runs = RelistRuns::default();
        for relist in (5..=100_000).chain(7..9) {
            runs.add((1, relist));
            runs.add((2, relist));
        }
        runs.add((2, 200_000));
        assert_eq!(runs.0.len(), 3);
        for (relist, is_known) in [
            ((1, 4), false),
            ((1, 5), true),
            ((1, 100_000), true),
            ((1, 100_001), false),
            ((2, 99_999), true),
            ((2, 150_000), false),
            ((2, 200_000), true),
            ((3, 5), false),
            ((0, u64::MAX), false),
        ] {
            assert_eq!(runs.has(relist), is_known, "{relist:?}");
        }
    }
}
