//! stdout and stderr. No other module opens them (`clippy.toml`), so text for people reaches them only through a [`Page`],
//! and a progress line only through [`ProgressLine`]; both escape it.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cmd::render::page::{Line, Page};
use crate::cmd::render::{PLAIN, Style};
use crate::report::escape::escaped;

/// Returns stdout, for the modules that draw on a terminal and for output that is no text.
#[expect(clippy::disallowed_methods, reason = "this module gives out stdout")]
pub fn stdout() -> io::Stdout {
    io::stdout()
}

/// Returns stderr.
#[expect(clippy::disallowed_methods, reason = "this module gives out stderr")]
fn stderr() -> io::Stderr {
    io::stderr()
}

/// Returns a page that is as wide as the terminal on stdout.
pub fn page(out: &mut dyn Write, style: Style) -> Page<'_> {
    Page::new(out, style).on_terminal(stdout_columns())
}

/// Prints text on stdout.
pub fn text(style: Style, print: impl FnOnce(&mut Page<'_>) -> io::Result<()>) -> io::Result<()> {
    document(|out| print(&mut page(out, style)))
}

/// Prints a document on stdout, whose format has its own escaping.
pub fn document(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::new(stdout().lock());
    write(&mut out)?;
    out.flush()
}

/// Prints a line on stderr. If stderr is closed, the line is lost.
pub fn remark(text: impl fmt::Display) {
    let columns = columns(&stderr());
    let _ = Page::new(&mut stderr().lock(), PLAIN).on_terminal(columns).line(&Line::colored("", text));
}

/// Returns the rows and columns of the terminal on stdout, if stdout is a terminal.
pub fn terminal_size() -> Option<(usize, usize)> {
    size(&stdout()).filter(|(rows, _)| *rows > 0)
}

/// Whether the terminal can rewrite a line, according to `$TERM`.
pub fn can_rewrite() -> bool {
    env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Whether stdout is a terminal with a size.
pub fn stdout_is_seen() -> bool {
    is_seen(&stdout())
}

/// Whether a stream is a terminal with a size. `kubectl debug` has a terminal of 0×0 until a user attaches;
/// until then the output goes to the pod's log, where colour and progress are noise.
pub fn is_seen(stream: &(impl IsTerminal + AsFd)) -> bool {
    size(stream).is_some()
}

/// Returns the rows and columns of the terminal behind a stream, if there is one with a width.
fn size(stream: &(impl IsTerminal + AsFd)) -> Option<(usize, usize)> {
    let size = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream).ok())??;
    Some((usize::from(size.ws_row), usize::from(size.ws_col))).filter(|(_, columns)| *columns > 0)
}

fn columns(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    size(stream).map(|(_, columns)| columns)
}

/// Returns the width of the terminal on stdout.
pub fn stdout_columns() -> Option<usize> {
    columns(&stdout())
}

/// The interval at which [`ProgressLine::during`] writes its line again.
const REFRESH: Duration = Duration::from_millis(120);

/// A line on stderr that shows progress.
pub struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Shows a line of this template, if `is_wanted` and stderr is a terminal. `total` is the number of steps, if it is known.
    #[expect(clippy::disallowed_methods, reason = "this type escapes the texts of the line")]
    pub fn begin(is_wanted: bool, template: &str, total: Option<u64>) -> Self {
        if !is_wanted || !is_seen(&stderr()) {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        Self(match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    /// Shows a line of text if stderr is a terminal that can rewrite a line.
    pub fn sentence(quiet: bool) -> Self {
        Self::begin(!quiet && can_rewrite(), "{wide_msg}", None)
    }

    /// Creates a line that nobody sees.
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Whether nobody sees the line.
    pub fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }

    /// Replaces the text of the line.
    pub fn show(&self, text: &str) {
        self.0.set_message(escaped(text).into_owned());
    }

    /// Writes the line that `text` returns again and again until `work` ends, then removes it. A future does this and not a
    /// thread, because the node may have no free thread.
    pub async fn during<T>(&self, text: impl Fn() -> Option<String>, work: impl Future<Output = T>) -> T {
        let refresh_forever = async {
            loop {
                tokio::time::sleep(REFRESH).await;
                if let Some(line) = (!self.is_hidden()).then(&text).flatten() {
                    self.show(&line);
                }
            }
        };
        let done = tokio::select! {
            done = work => done,
            never = refresh_forever => never,
        };
        self.end();
        done
    }

    /// Counts a finished step.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// Removes the line.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
