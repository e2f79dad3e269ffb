//! Reads of one node's kubelet, through the API server, what shows for which call of the runtime it waits: at most two
//! goroutine dumps. A dump is parsed while it arrives, and only the goroutines that matter are kept.

use std::io::{self, Read, Write};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::spawn_blocking;

use super::error_text;
use crate::clock::{Clock, Mono};
use crate::cri::Outcome;
use crate::diagnosis::input_file::InputFile;
use crate::diagnosis::report::{NotChecked, ProbeReport};
use crate::kubelet::{KubeletApi, http};
use crate::stacks::dump::Dump;
use crate::stacks::kubelet::{KubeletCalls, kubelet_calls, without_others};
use crate::stacks::read::{self, Bounds, read};
use crate::stacks::sources::GOROUTINES;

/// The pause between two dumps: a call that is silent for so long likely hangs.
const PAUSE: Duration = Duration::from_secs(5);

/// The time limit for one dump, and the shortest that is worth a request.
const DUMP_LIMIT: Duration = Duration::from_secs(10);
const SHORTEST: Duration = Duration::from_secs(1);

/// The number of parts of a dump that wait for the parser.
const PARTS: usize = 16;

/// What is needed to read a dump.
const DUMP: &str = "the kubelet's goroutines";

/// What the dumps of a kubelet show, and what the requests cost.
#[derive(Debug, Default)]
pub struct KubeletDumps {
    /// The calls of the kubelet; `None` if no dump could be read.
    pub calls: Option<KubeletCalls>,
    /// The requests.
    pub probes: Vec<ProbeReport>,
    /// What could not be read.
    pub not_checked: Vec<NotChecked>,
    /// The dumps, packed, if they are to be kept.
    pub input_files: Vec<InputFile>,
}

/// One dump, and when it was taken: after `begun` and before `ended`.
struct TimedDump {
    dump: Dump,
    begun: Mono,
    ended: Mono,
}

/// Reads a dump and, if the kubelet waits for a call in it, a second one after a pause. Does `meanwhile` in this pause.
/// Nothing is requested after `deadline`.
pub async fn read_dumps(
    kubelet: &KubeletApi,
    clock: &dyn Clock,
    deadline: Mono,
    keep: bool,
    meanwhile: impl Future<Output = ()>,
) -> KubeletDumps {
    let mut dumps = KubeletDumps::default();
    let first = dumps.take(kubelet, clock, deadline, keep).await;
    let pause = PAUSE / crate::test_settings::silence_divisor();
    let is_waiting = first.as_ref().is_some_and(|first| waits(&first.dump));
    if !is_waiting || deadline.since(clock.mono()) < pause + SHORTEST {
        meanwhile.await;
        dumps.calls = first.and_then(|first| kubelet_calls(&[&first.dump], Duration::ZERO));
        return dumps;
    }
    tokio::join!(tokio::time::sleep(pause), meanwhile);
    let second = dumps.take(kubelet, clock, deadline, keep).await;
    dumps.calls = match (&first, &second) {
        (Some(first), Some(second)) => {
            kubelet_calls(&[&first.dump, &second.dump], second.begun.since(first.ended))
        }
        (Some(only), None) | (None, Some(only)) => kubelet_calls(&[&only.dump], Duration::ZERO),
        (None, None) => None,
    };
    dumps
}

/// Whether the relist or a pod worker waits for a call.
fn waits(dump: &Dump) -> bool {
    let calls = kubelet_calls(&[dump], Duration::ZERO);
    calls.is_some_and(|calls| calls.relist.call().is_some() || !calls.workers.is_empty())
}

impl KubeletDumps {
    /// Takes one dump; `None` if there is no time or no dump.
    async fn take(
        &mut self,
        kubelet: &KubeletApi,
        clock: &dyn Clock,
        deadline: Mono,
        keep: bool,
    ) -> Option<TimedDump> {
        let begun = clock.mono();
        let limit = deadline.since(begun).min(DUMP_LIMIT);
        if limit < SHORTEST {
            self.skip("no budget left".to_owned());
            return None;
        }
        let mut packed = keep.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
        let (parsed, outcome) = request_dump(kubelet, limit, packed.as_mut()).await;
        self.input_files.extend(packed.and_then(|packed| self.input_file(packed.finish().ok()?)));
        let ended = clock.mono();
        self.probes.push(probe(&outcome, ended.since(begun)));
        if let Err(why) = &outcome {
            self.skip(why_not(why));
        }
        match parsed {
            Ok(dump) => Some(TimedDump { dump, begun, ended }),
            Err(why) => {
                if outcome.is_ok() {
                    self.skip(format!("the answer is no goroutine dump: {why}"));
                }
                None
            }
        }
    }

    /// Names a packed dump.
    fn input_file(&self, packed: Vec<u8>) -> Option<InputFile> {
        let name = format!("kubelet/goroutines-{}.txt.gz", self.input_files.len() + 1);
        let about = "a goroutine dump of the kubelet; read it with `plegctl stacks`";
        (!packed.is_empty()).then(|| InputFile::whole(name, about, packed))
    }

    fn skip(&mut self, why: String) {
        self.not_checked.push(NotChecked::new(DUMP, why));
    }
}

/// Explains why there is no dump, or only a part of one.
fn why_not(why: &http::Error) -> String {
    match why {
        http::Error::Forbidden { .. } | http::Error::Unauthorized { .. } => {
            format!("{}; it needs `get` on nodes/proxy", error_text(why))
        }
        http::Error::Status { status: 404 | 405, .. } => {
            "the kubelet does not serve them (enableDebuggingHandlers or enableProfilingHandler is off)"
                .to_owned()
        }
        why => error_text(why),
    }
}

/// Describes a request.
fn probe(outcome: &Result<usize, http::Error>, took: Duration) -> ProbeReport {
    ProbeReport {
        name: GOROUTINES.to_owned(),
        outcome: match outcome {
            Ok(_) => Outcome::Ok,
            Err(why) if why.is_silent() => Outcome::Silent,
            Err(_) => Outcome::Error,
        },
        duration_seconds: took.as_secs_f64(),
        response_bytes: outcome.as_ref().ok().map(|bytes| u64::try_from(*bytes).unwrap_or(u64::MAX)),
        stream: None,
        calls: None,
        message: outcome.as_ref().err().map(error_text),
    }
}

/// Requests a dump and parses it in another thread while it arrives. Returns what was parsed, also of a part, and how the
/// request ended.
async fn request_dump(
    kubelet: &KubeletApi,
    limit: Duration,
    mut keep: Option<&mut GzEncoder<Vec<u8>>>,
) -> (Result<Dump, String>, Result<usize, http::Error>) {
    let (sender, parts) = channel(PARTS);
    let parsing = spawn_blocking(move || parse(ArrivingAnswer { parts, part: Vec::new(), at: 0 }));
    let take = async |part: &[u8]| {
        // A write to memory does not fail.
        let _written = keep.as_mut().map(|packed| packed.write_all(part));
        drop(sender.send(part.to_vec()).await);
    };
    let outcome = kubelet.get_in_parts(GOROUTINES, limit, take).await;
    drop(sender);
    let parsed = parsing.await.unwrap_or_else(|why| Err(why.to_string()));
    (parsed, outcome)
}

/// Parses a dump and drops the goroutines that do not matter.
fn parse(answer: ArrivingAnswer) -> Result<Dump, String> {
    let reading = read(answer, Bounds::default()).map_err(|why: read::Error| why.to_string())?;
    let last = reading.dumps.into_iter().next_back().ok_or("it is empty")?;
    Ok(without_others(last))
}

/// The parts of an answer, in the order in which they arrive.
struct ArrivingAnswer {
    parts: Receiver<Vec<u8>>,
    part: Vec<u8>,
    /// How many bytes of `part` have been read.
    at: usize,
}

impl Read for ArrivingAnswer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at >= self.part.len() {
            let Some(next) = self.parts.blocking_recv() else { return Ok(0) };
            (self.part, self.at) = (next, 0);
        }
        let mut rest = self.part.get(self.at..).unwrap_or_default();
        let count = rest.read(into)?;
        self.at += count;
        Ok(count)
    }
}
