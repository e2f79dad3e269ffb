//! The terminal of `top`: switches to the alternate screen, reads single keys, and writes only the cells that changed.
//! At the end of the command, before a suspension and after a panic, it restores the terminal. It cannot do this after
//! SIGKILL.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::screen::empty;
use super::view::Key;
use crate::cmd::render::words::width;
use crate::cmd::term::streams::stdout;
use crate::threads::{self, locked};

/// Opens the alternate screen, hides the cursor and clears the screen.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";

/// Resets colours, shows the cursor and closes the alternate screen.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// How long a terminal may take to accept the last output.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// How long the rest of an escape sequence may take. A single escape character is the Esc key.
const SEQUENCE_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 30_000_000 };

/// The settings of the terminal before plegctl changed them; `None` while plegctl does not own the screen. A panic in any
/// thread restores them.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// The terminal on stdin and stdout.
pub struct Terminal {
    /// Frames for the thread that writes them, because a terminal that is stopped (Ctrl-S) must not stop the relists.
    frames: mpsc::Sender<String>,
    /// Whether the thread still writes a frame.
    is_writing: Arc<AtomicBool>,
    /// What the terminal shows after the last frame.
    shown: Buffer,
    keys: UnboundedReceiver<Vec<Key>>,
}

impl Terminal {
    /// Opens the screen.
    pub fn open() -> io::Result<Self> {
        let (frames, received) = mpsc::channel::<String>();
        let is_writing = Arc::new(AtomicBool::new(false));
        let written = Arc::clone(&is_writing);
        thread::Builder::new().name("screen".to_owned()).spawn(move || {
            for frame in received {
                // If the terminal is gone, a signal or the end of stdin ends the command.
                let _ = write(frame.as_bytes());
                written.store(false, Ordering::SeqCst);
            }
        })?;
        let (pressed, keys) = unbounded_channel();
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            leave();
            print(info);
        }));
        enter()?;
        // Starts after `enter`: before, the terminal reports Ctrl-D as the end of its input, which would end `top`.
        let reader = thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&pressed));
        if let Err(error) = reader {
            leave_in_time();
            return Err(error);
        }
        Ok(Self { frames, is_writing, shown: empty((0, 0)), keys })
    }

    /// Shows `next`, if the terminal has accepted the frame before; otherwise a later call shows a newer frame.
    pub fn show(&mut self, next: Buffer) {
        if locked(&SAVED).is_none() {
            // A panic of one part of plegctl has restored the terminal.
            self.shown = empty((0, 0));
            if enter().is_err() {
                return;
            }
        }
        if self.is_writing.load(Ordering::SeqCst) {
            return;
        }
        let frame = frame(&self.shown, &next);
        self.shown = next;
        if !frame.is_empty() {
            self.is_writing.store(true, Ordering::SeqCst);
            // The thread runs as long as this value exists.
            let _ = self.frames.send(frame);
        }
    }

    /// Makes the next frame draw every cell.
    pub fn redraw(&mut self) {
        self.shown = empty((0, 0));
    }

    /// Takes the terminal again.
    pub fn take(&mut self) -> io::Result<()> {
        self.redraw();
        enter()
    }

    /// Waits for keys; `None` when the terminal is gone.
    pub async fn keys(&mut self) -> Option<Vec<Key>> {
        self.keys.recv().await
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave_in_time();
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

fn enter() -> io::Result<()> {
    let before = tcgetattr(io::stdin())?;
    let mut raw = before.clone();
    // Ctrl-C and Ctrl-Z stay signals. Ctrl-\ would end the process without restoring the terminal.
    raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    raw.special_codes[SpecialCodeIndex::VQUIT] = 0;
    raw.special_codes[SpecialCodeIndex::VMIN] = 1;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
    *locked(&SAVED) = Some(before);
    write(ENTER)
}

/// Restores the terminal, unless that is done already.
fn leave() {
    let Some(before) = locked(&SAVED).take() else { return };
    // If the terminal is gone, there is nothing to restore.
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    let _ = write(LEAVE);
}

/// Gives the terminal back to the shell, as `leave` does, but waits only for a limited time.
pub fn leave_in_time() {
    // A terminal that accepts no output keeps the alternate screen, but has its settings again.
    let _ = threads::with_time_limit(TIME_LIMIT, leave);
}

/// Sends the keys that arrive on stdin, until the terminal or the receiver is gone. Only this thread waits for stdin.
fn read_keys(pressed: &UnboundedSender<Vec<Key>>) {
    let stdin = io::stdin();
    let mut bytes = Vec::new();
    let mut chunk = [0; 64];
    while let Ok(count @ 1..) = rustix::io::retry_on_intr(|| rustix::io::read(&stdin, &mut chunk)) {
        bytes.extend(chunk.iter().take(count));
        if ends_within_sequence(&bytes) && is_readable(&stdin, &SEQUENCE_TIME) {
            continue;
        }
        if pressed.send(keys_in(&bytes)).is_err() {
            break;
        }
        bytes.clear();
    }
}

fn is_readable(stdin: &io::Stdin, timeout: &Timespec) -> bool {
    poll(&mut [PollFd::new(stdin, PollFlags::IN)], Some(timeout)).is_ok_and(|count| count > 0)
}

/// Returns the control sequences that turn the screen `shown` into `next`.
fn frame(shown: &Buffer, next: &Buffer) -> String {
    let mut text = String::new();
    let blank;
    let shown = if shown.area() == next.area() {
        shown
    } else {
        text.push_str("\x1b[0m\x1b[2J");
        blank = Buffer::empty(*next.area());
        &blank
    };
    let mut cursor = None;
    let mut style = None;
    for (x, y, cell) in shown.diff(next) {
        if cursor != Some((x, y)) {
            // Writing to a String cannot fail.
            let _ = write!(text, "\x1b[{};{}H", y + 1, x + 1);
        }
        let wanted = (cell.fg, cell.modifier);
        if style != Some(wanted) {
            text.push_str(&select_style(cell.fg, cell.modifier));
            style = Some(wanted);
        }
        text.push_str(cell.symbol());
        // After a wide character, the position is set again.
        cursor = Some((x + 1, y)).filter(|_| cell.symbol().is_ascii() || width(cell.symbol()) == 1);
    }
    if !text.is_empty() {
        text.push_str("\x1b[0m");
    }
    text
}

/// Returns the control sequence for a style.
fn select_style(color: Color, modifier: Modifier) -> String {
    let mut text = "\x1b[0".to_owned();
    for (part, code) in [(Modifier::BOLD, ";1"), (Modifier::REVERSED, ";7")] {
        if modifier.contains(part) {
            text.push_str(code);
        }
    }
    text.push_str(match color {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        Color::DarkGray => ";90",
        _ => "",
    });
    text.push('m');
    text
}

/// Whether more bytes may belong to the last escape sequence.
fn ends_within_sequence(bytes: &[u8]) -> bool {
    let Some(at) = bytes.iter().rposition(|byte| *byte == 0x1b) else { return false };
    match bytes.get(at + 1..).unwrap_or_default() {
        [] | [b'[' | b'O'] => true,
        [b'[', rest @ ..] => rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b';'),
        _ => false,
    }
}

/// Returns the keys that send these bytes. Unknown sequences are skipped.
fn keys_in(bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (0x1b, [b'[' | b'O', sequence @ ..]) => {
                let is_final = |byte: &u8| (0x40..=0x7e).contains(byte);
                let length = sequence.iter().position(is_final).map_or(sequence.len(), |at| at + 1);
                let (sequence, after) = sequence.split_at(length);
                rest = after;
                keys.extend(match sequence {
                    b"A" => Some(Key::Up),
                    b"B" => Some(Key::Down),
                    b"C" => Some(Key::Right),
                    b"D" => Some(Key::Left),
                    b"H" | b"1~" | b"7~" => Some(Key::Home),
                    b"F" | b"4~" | b"8~" => Some(Key::End),
                    b"5~" => Some(Key::PageUp),
                    b"6~" => Some(Key::PageDown),
                    _ => None,
                });
            }
            (0x1b, _) => keys.push(Key::Escape),
            (b'\r' | b'\n', _) => keys.push(Key::Enter),
            (0x7f | 0x08, _) => keys.push(Key::Backspace),
            (0x15, _) => keys.push(Key::ClearLine),
            (0x0c, _) => keys.push(Key::Redraw),
            (..0x20, _) => {}
            (byte, _) => {
                let length = match byte {
                    0xc0..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    0xf0.. => 4,
                    _ => 1,
                };
                let character = bytes.get(bytes.len() - rest.len() - 1..).and_then(|rest| rest.get(..length));
                if let Some(character) = character.and_then(|bytes| str::from_utf8(bytes).ok()) {
                    keys.extend(character.chars().map(Key::Char));
                    rest = rest.get(length - 1..).unwrap_or_default();
                }
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui_core::style::Style;

    #[test]
    fn keys_are_read_from_their_sequences_and_unknown_sequences_are_skipped() {
        let keys = keys_in("\x1b[A\x1bOB\x1b[5~q\x1b[1;5Cé\r\x7f\x15\x0c\x01\x1b".as_bytes());
        let wanted = [
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::Char('q'),
            Key::Char('é'),
            Key::Enter,
            Key::Backspace,
            Key::ClearLine,
            Key::Redraw,
            Key::Escape,
        ];
        assert_eq!(keys, wanted);
        assert_eq!(keys_in(&[0xc3, b'a', 0xff]), [Key::Char('a')]);
    }

    #[test]
    fn a_sequence_that_arrives_in_parts_is_one_key() {
        for part in ["\x1b", "\x1b[", "\x1bO", "\x1b[5", "q\x1b[1;5"] {
            assert!(ends_within_sequence(part.as_bytes()), "{part:?}");
        }
        for whole in ["", "a", "\x1b[A", "\x1b[5~", "\x1bOB"] {
            assert!(!ends_within_sequence(whole.as_bytes()), "{whole:?}");
        }
    }

    #[test]
    fn a_frame_has_only_the_cells_that_changed() {
        let mut one = empty((5, 2));
        one.set_string(0, 0, "abc", Style::new());
        let mut two = one.clone();
        two.set_string(1, 0, "x", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        two.set_string(3, 1, "漢", Style::new());
        assert_eq!(frame(&one, &two), "\x1b[1;2H\x1b[0;1;31mx\x1b[2;4H\x1b[0m漢\x1b[0m");
        assert_eq!(frame(&two, &two), "");
        assert!(frame(&empty((4, 2)), &two).starts_with("\x1b[0m\x1b[2J"));
    }
}
