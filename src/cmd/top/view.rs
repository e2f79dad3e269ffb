//! The part of `top`'s state that the user changes with keys: the selected row, the filter, the open page. Pure: a key
//! changes the view or asks for an action.

use super::model::{Entry, EntryKind, Model, SilentCall, SlowPod, pod_name};
use crate::clock::{Mono, Wall};
use crate::cmd::render::words::wrapped;
use crate::pleg::PlegState;

/// The number of the slowest pods that the list has.
const MAX_SLOW: usize = 20;

/// A key of the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    /// Ctrl-U.
    ClearLine,
    /// Ctrl-L.
    Redraw,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// What a key asks the caller for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    /// Pause, or continue.
    Pause,
    /// Draw every cell again.
    Redraw,
    /// Write a bundle to this file; without a file, to the one of `--bundle`.
    Bundle(Option<String>),
    /// Move in the capture.
    Move(Movement),
    /// Play the capture faster or slower.
    Speed {
        faster: bool,
    },
}

/// A movement in the time of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// One step, or ten.
    Step {
        back: bool,
        far: bool,
    },
    /// To the worst moment of another incident.
    Incident {
        back: bool,
    },
    Start,
    End,
}

/// What identifies a row while the lists change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowId {
    Call(String, Option<String>),
    Pod(String),
    Entry(u64),
}

/// The page on top of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Page {
    /// The lists themselves.
    #[default]
    Lists,
    /// The user types a filter.
    Filter,
    /// The user types the path of a bundle.
    BundlePath(String),
    /// A text that scrolls, with its title.
    Text { title: &'static str, lines: Vec<String>, top: usize },
}

/// The position of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayPosition {
    pub from: Wall,
    pub to: Wall,
    /// The worst moments of the incidents.
    pub incidents: Vec<Wall>,
    /// The speed: `1×`, `max`.
    pub speed: String,
    /// Whether the last relist was played.
    pub ended: bool,
}

/// The state of the screen.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub page: Page,
    pub filter: String,
    pub selected: Option<RowId>,
    pub paused: bool,
    /// A message in the last line.
    pub message: Option<String>,
    pub replay: Option<ReplayPosition>,
    /// Whether `--bundle` names a file.
    pub has_bundle: bool,
    pub color: bool,
    /// The width of the terminal at the last key.
    pub columns: u16,
}

/// The rows of the three lists.
pub struct Rows<'a> {
    pub calls: Vec<SilentCall>,
    pub pods: Vec<SlowPod>,
    /// The newest entry is the first one.
    pub entries: Vec<&'a Entry>,
}

impl<'a> Rows<'a> {
    /// Returns the rows that pass the filter. The filter never hides a pending call.
    pub fn matching(model: &'a Model, filter: &str, now: Mono) -> Self {
        let wanted = filter.to_lowercase();
        let passes = |text: String| wanted.is_empty() || text.to_lowercase().contains(&wanted);
        let pods = model.slow_pods().into_iter();
        Self {
            calls: model.silent_calls(now),
            pods: pods
                .filter(|slow| {
                    let container = slow.container.as_deref().unwrap_or_default();
                    passes(format!("{} {container} {}", pod_name(&slow.pod), slow.rpc))
                })
                .take(MAX_SLOW)
                .collect(),
            entries: model.entries.iter().rev().filter(|entry| passes(entry.searched())).collect(),
        }
    }

    /// Returns the ids of all rows, from the top to the bottom.
    pub fn ids(&self) -> Vec<RowId> {
        let calls = self.calls.iter().map(row_of_call);
        let pods = self.pods.iter().map(SlowPod::row);
        calls.chain(pods).chain(self.entries.iter().map(|entry| RowId::Entry(entry.number))).collect()
    }
}

/// Returns the row of a silent call.
pub fn row_of_call(call: &SilentCall) -> RowId {
    RowId::Call(call.rpc.clone(), call.id.clone())
}

impl SlowPod {
    pub fn row(&self) -> RowId {
        RowId::Pod(self.pod.uid.clone())
    }
}

impl Entry {
    /// Returns the text in which a filter searches.
    fn searched(&self) -> String {
        match &self.kind {
            EntryKind::Notice(_, text) => text.clone(),
            EntryKind::Event(event) => format!(
                "{} {} {} {} {} {}",
                pod_name(&event.pod),
                event.name.as_deref().unwrap_or_default(),
                event.event_type.as_str(),
                event.to.map_or("", PlegState::as_str),
                event.reason.as_deref().unwrap_or_default(),
                event.id.as_deref().unwrap_or_default(),
            ),
        }
    }
}

impl View {
    pub fn new(color: bool, has_bundle: bool) -> Self {
        Self { has_bundle, color, ..Self::default() }
    }

    /// Handles a key. `rows` are the ids of all rows, `height` is the number of lines of a page; `explanation` makes the
    /// text about the selected row.
    pub fn key(
        &mut self,
        key: Key,
        rows: &[RowId],
        height: usize,
        explanation: impl FnOnce(Option<&RowId>) -> Vec<String>,
    ) -> Option<Action> {
        if key == Key::Redraw {
            return Some(Action::Redraw);
        }
        self.message = None;
        match &mut self.page {
            Page::Lists => self.key_in_lists(key, rows, height, explanation),
            Page::Filter => {
                match key {
                    Key::Enter => self.page = Page::Lists,
                    Key::Escape => {
                        self.filter.clear();
                        self.page = Page::Lists;
                    }
                    key => edit(&mut self.filter, key),
                }
                None
            }
            Page::BundlePath(path) => {
                match key {
                    Key::Enter => {
                        let path = std::mem::take(path);
                        self.page = Page::Lists;
                        return (!path.trim().is_empty()).then_some(Action::Bundle(Some(path)));
                    }
                    Key::Escape => self.page = Page::Lists,
                    key => edit(path, key),
                }
                None
            }
            Page::Text { lines, top, .. } => {
                let last = lines.len().saturating_sub(height);
                match key {
                    Key::Enter | Key::Escape | Key::Char('q' | '?') => self.page = Page::Lists,
                    Key::Up | Key::Char('k') => *top = top.saturating_sub(1),
                    Key::Down | Key::Char('j') => *top = (*top + 1).min(last),
                    Key::PageUp => *top = top.saturating_sub(height),
                    Key::PageDown | Key::Char(' ') => *top = (*top + height).min(last),
                    Key::Home => *top = 0,
                    Key::End => *top = last,
                    _ => {}
                }
                None
            }
        }
    }

    fn key_in_lists(
        &mut self,
        key: Key,
        rows: &[RowId],
        height: usize,
        explanation: impl FnOnce(Option<&RowId>) -> Vec<String>,
    ) -> Option<Action> {
        let replays = self.replay.is_some();
        match key {
            Key::Char('q') => return Some(Action::Quit),
            Key::Char('p' | ' ') => return Some(Action::Pause),
            Key::Char('/') => self.page = Page::Filter,
            Key::Char('?') => {
                let lines = help(replays, self.columns);
                self.page = Page::Text { title: "KEYS", lines, top: 0 };
            }
            Key::Char('s') if self.has_bundle => return Some(Action::Bundle(None)),
            Key::Char('s') => self.page = Page::BundlePath(String::new()),
            Key::Enter => {
                let selected = self.selected.as_ref().filter(|id| rows.contains(id));
                self.page = Page::Text { title: "EXPLAIN", lines: explanation(selected), top: 0 };
            }
            Key::Escape => {
                self.selected = None;
                self.filter.clear();
            }
            Key::Up | Key::Char('k') => self.select(rows, |at| at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select(rows, |at| at.saturating_add(1)),
            Key::PageUp => self.select(rows, |at| at.saturating_sub(height)),
            Key::PageDown => self.select(rows, |at| at.saturating_add(height)),
            Key::Left if replays => return Some(step(true, false)),
            Key::Right if replays => return Some(step(false, false)),
            Key::Char('<' | ',') if replays => return Some(step(true, true)),
            Key::Char('>' | '.') if replays => return Some(step(false, true)),
            Key::Char('[' | 'N') if replays => return Some(Action::Move(Movement::Incident { back: true })),
            Key::Char(']' | 'n') if replays => return Some(Action::Move(Movement::Incident { back: false })),
            Key::Home if replays => return Some(Action::Move(Movement::Start)),
            Key::End if replays => return Some(Action::Move(Movement::End)),
            Key::Char('+' | '=') if replays => return Some(Action::Speed { faster: true }),
            Key::Char('-') if replays => return Some(Action::Speed { faster: false }),
            Key::Home => self.selected = rows.first().cloned(),
            Key::End => self.selected = rows.last().cloned(),
            _ => {}
        }
        None
    }

    /// Moves the selection; the first movement selects the first row.
    fn select(&mut self, rows: &[RowId], movement: impl FnOnce(usize) -> usize) {
        let at = self.selected.as_ref().and_then(|id| rows.iter().position(|row| row == id));
        let wanted = at.map_or(0, movement).min(rows.len().saturating_sub(1));
        self.selected = rows.get(wanted).cloned();
    }
}

const fn step(back: bool, far: bool) -> Action {
    Action::Move(Movement::Step { back, far })
}

/// Applies a key to a line that the user types.
fn edit(line: &mut String, key: Key) {
    match key {
        Key::Char(character) => line.push(character),
        Key::Backspace => {
            line.pop();
        }
        Key::ClearLine => line.clear(),
        _ => {}
    }
}

/// Returns the text of the help page in lines of this width.
fn help(replays: bool, columns: u16) -> Vec<String> {
    const KEYS: [&str; 9] = [
        "Enter         explain the selected row, or the verdict if no row is selected",
        "/             show only pods and transitions that contain a text",
        "Esc           select no row, and show all",
        "s             save a bundle for a colleague, with the calls of `plegctl health`",
        "?             this page",
        "Ctrl-L        draw the screen again",
        "q  Ctrl-C     quit",
        "",
        "Esc, Enter or q closes this page.",
    ];
    const PAUSE: [&str; 1] = ["p             pause the screen, and continue; the relists go on meanwhile"];
    const REPLAY: [&str; 7] = [
        "← →           10 seconds back and forward",
        "< >           100 seconds back and forward",
        "[ ]           the worst moment of the previous and of the next incident",
        "Home End      the start and the end of the capture",
        "+ -           play faster and slower",
        "p             pause the replay, and continue",
        "",
    ];
    // During a replay, Home and End move in time.
    let select = if replays { "PgUp PgDn move further" } else { "PgUp PgDn Home End further" };
    let select = format!("↑ ↓  j k      select a row; {select}");
    let first: &[&str] = if replays { &REPLAY } else { &PAUSE };
    let lines = first.iter().copied().chain([select.as_str()]).chain(KEYS);
    lines.flat_map(|line| wrapped(line, columns.into(), "              ")).collect()
}
