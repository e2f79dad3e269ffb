//! [`GlobalArgs`]: the options of every command, as the user typed them, and what they alone decide: the style of the
//! output, and which remarks are printed. Also parses the values that several commands have.

use std::env;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, ColorChoice};
use clap_complete::ArgValueCompleter;

use super::complete;
use super::render::Style;
use crate::cmd::term::streams;

/// The options of every command, as the user typed them.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// The runtime: `unix:///path`, `/path`, `sim:SCENARIO` or `capture:PATH[@TIME]` [default:
    /// `$CONTAINER_RUNTIME_ENDPOINT`, crictl.yaml, the running kubelet's, the well-known sockets]
    #[arg(short, long, global = true, value_name = "ENDPOINT", add = ArgValueCompleter::new(complete::endpoints))]
    pub runtime_endpoint: Option<String>,

    /// crictl's settings file [default: `$CRI_CONFIG_FILE`, /etc/crictl.yaml]
    #[arg(short, long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The node's root directory, if it is mounted elsewhere, as in a debug pod [default: /host if a node is mounted
    /// there, else /]
    #[arg(long, global = true, value_name = "DIR")]
    pub host_root: Option<PathBuf>,

    /// Deadline of each call to the runtime, and of each request to a kubelet or an API server [default: 10s; 2m for
    /// `watch` and `record`; 5s to 30s for requests and programs that give a credential]
    #[arg(long, global = true, value_name = "DUR", allow_hyphen_values = true, value_parser = positive_duration)]
    pub timeout: Option<Duration>,

    /// The time of the simulated node since its start [default: since midnight UTC, so that time goes on from one
    /// command to the next; 0s for `sim serve`]
    #[arg(long, global = true, value_name = "DUR", value_parser = humantime::parse_duration)]
    pub at: Option<Duration>,

    /// When to use colour on a terminal
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,

    /// Do not print progress and notes
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Print more: which runtime was chosen and why; give it twice to see every call
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// Leave out table headers
    #[arg(long, global = true)]
    pub no_headers: bool,
}

impl GlobalArgs {
    /// Returns the style of text on stdout.
    pub fn style(&self) -> Style {
        Style { headers: !self.no_headers, color: self.color() }
    }

    fn color(&self) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && env::var_os("TERM").is_none_or(|term| term != "dumb")
                    && streams::stdout_is_seen()
            }
        }
    }

    /// Prints a remark on stderr, unless `--quiet` is given.
    pub fn remark(&self, text: &str) {
        self.note(0, text);
    }

    /// Prints a note on stderr, if `-v` is given at least `level` times.
    pub fn note(&self, level: u8, text: &str) {
        if self.verbose >= level && !self.quiet {
            streams::remark(text);
        }
    }
}

/// Parses a duration with units that is greater than zero.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("it must be more than zero".to_owned()),
        Ok(duration) => Ok(duration),
        Err(_) if text.strip_prefix('-').is_some_and(|rest| humantime::parse_duration(rest).is_ok()) => {
            Err("it must be more than zero".to_owned())
        }
        Err(why) => Err(format!("{why} (write it with a unit: 500ms, 10s, 3m)")),
    }
}

/// Parses a number that is not negative.
pub fn whole_number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "it must be a whole number, at least 0".to_owned())
}

/// Parses a number that is greater than zero.
pub fn at_least_one<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "it must be a whole number, at least 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_at_least_one() {
        assert_eq!(at_least_one::<std::num::NonZeroUsize>("8").unwrap().get(), 8);
        for text in ["0", "-1", "x", "99999999999999999999999"] {
            let why = at_least_one::<std::num::NonZeroUsize>(text).unwrap_err();
            assert_eq!(why, "it must be a whole number, at least 1");
        }
    }

    #[test]
    fn a_duration_needs_a_unit_and_a_size() {
        assert_eq!(positive_duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(positive_duration("10").is_err());
        assert!(positive_duration("0s").is_err());
    }
}
