//! A look at the node every half minute: pressure, and the processes that everything hangs on. Cheap, because nobody
//! needs it until something happens.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::proc::{Role, Trust};
use crate::host::{KernelDir, kernel_text};
use crate::report::Seconds;

/// The daemons that a relist depends on, as the kernel calls them.
const DAEMONS: [&str; 5] = ["containerd", "crio", "dockerd", "cri-dockerd", "kubelet"];

/// After how many looks the daemons are searched for anew, should one of them be another process by then.
const SEARCH_EVERY: u32 = 20;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSample {
    /// Share of time that something waited, in per cent over ten seconds: cpu, memory, io.
    #[serde(default)]
    pub pressure: Vec<Pressure>,
    /// The daemons.
    #[serde(default)]
    pub processes: Vec<ProcessSample>,
}

/// Pressure on one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    /// `cpu`, `memory` or `io`.
    pub resource: String,
    /// Something waited.
    pub some: f64,
    /// Everything waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<f64>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessSample {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The kernel's letter for its state.
    pub state: String,
    /// Ticks of processor time so far.
    pub cpu_ticks: u64,
    /// How many threads it has.
    pub threads: u64,
    /// Pages in memory.
    pub resident_pages: u64,
}

/// What the kubelet's own metrics said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletSample {
    /// How long it took.
    #[serde(rename = "tookSeconds")]
    pub took: Seconds,
    /// Whether it was asked and said nothing.
    #[serde(default)]
    pub silent: bool,
    /// Why there is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The series that matter, as they were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Takes looks.
#[derive(Debug)]
pub struct Samples {
    proc: Option<PathBuf>,
    daemons: Vec<u32>,
    looks: u32,
}

impl Samples {
    /// Of this process table, or of none.
    pub const fn of(proc: Option<PathBuf>) -> Self {
        Self { proc, daemons: Vec::new(), looks: 0 }
    }

    /// A look; `None` where there is nothing to look at.
    pub fn take(&mut self) -> Option<NodeSample> {
        let proc = self.proc.clone()?;
        if self.looks.is_multiple_of(SEARCH_EVERY) {
            self.daemons = daemons(&proc);
        }
        self.looks = self.looks.wrapping_add(1);
        let pressure = ["cpu", "memory", "io"].into_iter().filter_map(|resource| {
            pressure(resource, &kernel_text(&proc.join("pressure").join(resource)).ok()?)
        });
        let processes = self
            .daemons
            .iter()
            .filter_map(|pid| process(*pid, &kernel_text(&proc.join(pid.to_string()).join("stat")).ok()?));
        let sample = NodeSample { pressure: pressure.collect(), processes: processes.collect() };
        // One that is gone is looked for at once, not in ten minutes.
        if sample.processes.len() < self.daemons.len() {
            self.looks = 0;
        }
        (sample != NodeSample::default()).then_some(sample)
    }
}

fn daemons(proc: &Path) -> Vec<u32> {
    let Ok(table) = KernelDir::open(proc) else { return Vec::new() };
    let trust = Trust::of_table(proc);
    let is_daemon = |pid: &u32| {
        let name = table.record(&format!("{pid}/comm")).unwrap_or_default();
        let name = name.trim_end();
        let counts = |dir: KernelDir| trust.judge(&dir, Role::of(name), false).is_ok();
        DAEMONS.contains(&name) && KernelDir::open(&proc.join(pid.to_string())).is_ok_and(counts)
    };
    table.numbered().into_iter().filter(is_daemon).collect()
}

fn pressure(resource: &str, text: &str) -> Option<Pressure> {
    let average = |line: &str| {
        let rest = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg10="));
        rest.and_then(|number| number.parse().ok())
    };
    let line = |kind: &str| text.lines().find(|line| line.starts_with(kind)).and_then(average);
    Some(Pressure { resource: resource.to_owned(), some: line("some")?, full: line("full") })
}

/// Reads a line of `/proc/PID/stat`. The name is in brackets and may itself have some.
fn process(pid: u32, stat: &str) -> Option<ProcessSample> {
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
    Some(ProcessSample {
        pid,
        name: name.to_owned(),
        state: (*fields.first()?).to_owned(),
        cpu_ticks: number(11)?.saturating_add(number(12)?),
        threads: number(17)?,
        resident_pages: number(21)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_as_the_kernel_writes_it() {
        let text = "some avg10=1.50 avg60=0.10 avg300=0.00 total=12\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=3\n";
        let read = pressure("io", text).unwrap();
        assert_eq!((read.some, read.full), (1.5, Some(0.25)));
        assert_eq!(pressure("io", "nonsense"), None);
    }

    #[test]
    fn a_process_may_call_itself_anything() {
        let fields: Vec<String> = (0..40).map(|field: u32| field.to_string()).collect();
        let line = format!("42 (a) b ( c) D 1 {}", fields.join(" "));
        let read = process(42, &line).unwrap();
        assert_eq!((read.name.as_str(), read.state.as_str()), ("a) b ( c", "D"));
        assert_eq!(process(1, "1 (x"), None);
        assert_eq!(process(1, "1 (x) S 1 2"), None);
    }

    #[test]
    fn a_simulated_node_has_none() {
        assert_eq!(Samples::of(None).take(), None);
    }
}
