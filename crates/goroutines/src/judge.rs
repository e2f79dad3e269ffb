//! Combines waiters, holders and signatures into the findings of a report.
//!
//! Each dump is judged by its own `Judge`. It gives each goroutine a role: a *root* matches a signature and waits for
//! the cause, a *waiter* waits behind roots. One finding results for each signature with a root, for each lock without
//! an explanation, and for each cycle of waiters. The module only computes on parsed dumps; `live` adds names later.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::conmon;
use super::daemon::{Daemon, Program, identify};
use super::dump::{Dump, Form, Frame, Goroutine, short};
use super::functions::{LIBRARIES, meaning};
use super::holders::{self, Contention, HolderReason, Starts};
use super::report::{
    Chain, DumpInfo, Finding, Holder, PastDump, StackGroup, StackReport, Wait, WaitKind, WaitersBehind,
    WaitsFor,
};
use super::signatures::{Pattern, Signature, TWO_DUMPS, is_normal, issue_threads, unexplained_lock};
use super::wait::{self, ExternalWait, LockKind};
use super::wait_time::WaitTime;
use super::words;
use plegctl_base::report::plural;
use plegctl_base::report::{Confidence, Seconds, Severity};

/// A dump, and where and when it was taken.
#[derive(Debug, Default)]
pub struct DumpSource {
    /// The file, socket or URL.
    pub name: String,
    /// The parsed dump.
    pub dump: Dump,
    /// The process that wrote the dump, if known.
    pub pid: Option<u32>,
    /// The time at which the dump was taken or its file was written, as RFC 3339.
    pub taken_at: Option<String>,
    /// Whether plegctl requested the dump itself. Otherwise `taken_at` may be the time at which a file was copied.
    pub is_requested_here: bool,
    /// Set if plegctl found the dump on the node, but the dump does not show the present state.
    pub past: Option<PastDump>,
}

/// What the caller knows about hanging calls from measurements.
#[derive(Debug, Default)]
pub struct KnownHangs {
    /// Calls that were measured to hang while the dump was taken, each with the time since it was made.
    pub hanging: BTreeMap<String, Duration>,
}

/// The list calls that PLEG needs.
const LIST_CALLS: [&str; 4] = ["ListContainers", "ListPodSandbox", "StreamContainers", "StreamPodSandboxes"];

/// Calls whose caller chooses how long they may take, so that their age alone is no evidence.
const CALLS_WITH_GRACE_PERIOD: [&str; 1] = ["StopContainer"];

/// The number of kubelet loops that do not wait for the same call by chance.
const MIN_WAITING_LOOPS: usize = 3;

/// The shortest time between two dumps that are compared. Two closer dumps may both show the same short call.
pub const BETWEEN_DUMPS: Duration = Duration::from_secs(10);

/// The number of calls that do not wait for the exit of one container by chance.
const MIN_WAITS_FOR_EXIT: usize = 2;

/// The call that takes long if its image is large. That its goroutine is in two dumps does not show that it is stuck,
/// unless other goroutines wait for it.
const LONG_WRITING_CALL: &str = "PullImage";

/// The most groups and waits that a report lists; the others are counted.
const MAX_LISTED: usize = 1000;

/// The most goroutine ids that one wait lists.
const MAX_LISTED_IDS: usize = 100;

/// The most frames that a group shows.
const MAX_SHOWN_FRAMES: usize = 40;

/// Two dumps are of one process if at least this share of the smaller dump's goroutines is in both.
const MIN_COMMON_SHARE: f64 = 0.3;

/// Judges dumps and returns the report. Of several dumps of one process, the last is judged, and compared with the one
/// before it.
pub fn judge(sources: &[DumpSource], signatures: &[Signature], known_hangs: &KnownHangs) -> StackReport {
    let programs: Vec<Program> = sources.iter().map(|source| identify(&source.dump)).collect();
    let mut findings = Vec::new();
    let mut waits = Vec::new();
    let mut waiting = 0;
    let mut limits = BTreeSet::new();
    let mut groups = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let has_later_dump = (at + 1..sources.len()).any(|other| same_process(&programs, sources, at, other));
        if has_later_dump {
            continue;
        }
        let earlier = (0..at).rev().find(|other| same_process(&programs, sources, *other, at));
        let gap = earlier.and_then(|other| Some(DumpGap::of(sources.get(other)?, source)));
        let stuck = match (earlier.and_then(|other| sources.get(other)), gap) {
            (Some(before), Some(DumpGap::Enough)) => Some(Stuck {
                goroutines: stuck_goroutines(&before.dump, &source.dump),
                time_between: time_between(before, source),
            }),
            _ => None,
        };
        limits.extend(gap.and_then(DumpGap::limit).map(str::to_owned));
        let compared = stuck.is_some();
        let judge = Judge {
            number: at,
            dump: &source.dump,
            past: source.past,
            daemon: programs.get(at).map_or(Daemon::Unknown, |program| program.daemon),
            stuck,
            contentions: holders::contentions(&source.dump, &is_normal),
            starts: Starts::of(&source.dump),
            calls: Vec::new(),
            roles: Vec::new(),
        };
        let judged = judge.run(signatures, known_hangs);
        findings.extend(judged.findings);
        waiting += judged.waiting;
        waits.extend(
            judged.waits.into_iter().map(|wait| Wait { dump: (sources.len() > 1).then_some(at), ..wait }),
        );
        groups.extend(judged.groups);
        limits.extend(limits_of(&source.dump, compared));
    }
    groups.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.frames.cmp(&other.frames)));
    for (what, length) in [("groups", groups.len()), ("waits", waiting)] {
        if length > MAX_LISTED {
            limits.insert(format!("the report leaves out {} more {what}", length - MAX_LISTED));
        }
    }
    groups.truncate(MAX_LISTED);
    waits.truncate(MAX_LISTED);
    let mut report = StackReport {
        dumps: sources.iter().zip(&programs).map(|(source, program)| dump_info(source, program)).collect(),
        findings,
        waits,
        groups,
        limits: limits.into_iter().collect(),
        ..StackReport::default()
    };
    rebuild_summary(&mut report);
    report
}

/// Sorts the findings, and sets the summary and the primary finding again after names were added. The order is: findings
/// about the present first, confidence, findings with a holder first, severity, number of waiters.
pub fn rebuild_summary(report: &mut StackReport) {
    report.findings.sort_by_key(|finding| {
        let has_no_holder = finding.holder.is_none();
        let is_past = finding.chain.past.is_some();
        (is_past, finding.confidence, has_no_holder, Reverse(finding.severity), Reverse(finding.waiters))
    });
    report.primary = report.findings.first().cloned();
    let all_past =
        || report.dumps.iter().map(|dump| dump.past).min_by_key(|past| past.map(|past| past.age_seconds));
    let (past, sentence) = match &report.primary {
        Some(finding) => (finding.chain.past, words::sentence(finding)),
        None => (all_past().flatten(), "no goroutine waits for another one".to_owned()),
    };
    report.summary = words::as_of(past, sentence);
}

fn dump_info(source: &DumpSource, program: &Program) -> DumpInfo {
    DumpInfo {
        source: source.name.clone(),
        daemon: program.daemon,
        pid: source.pid,
        go_version: program.go.clone(),
        taken_at: source.dump.taken_at.clone().or_else(|| source.taken_at.clone()),
        past: source.past,
        goroutines: source.dump.announced.max(source.dump.count()),
        not_understood: source.dump.not_understood,
    }
}

/// Lists what a dump cannot show. `compared` means that it was compared with an earlier dump.
fn limits_of(dump: &Dump, compared: bool) -> Vec<String> {
    let mut limits = Vec::new();
    if dump.form == Form::Profile {
        limits.push(
            "a profile with counts (debug=1) has no states, ages or arguments, so it does not show who holds a \
             lock or for how long; use debug=2"
                .to_owned(),
        );
    } else if !compared && !dump.goroutines.iter().any(|goroutine| goroutine.minutes.is_some()) {
        limits.push(
            "no goroutine in the dump has waited for a minute: take a second dump a minute later to see what \
             is stuck"
                .to_owned(),
        );
    }
    if dump.not_understood > 0 {
        limits.push(format!("plegctl could not parse {} of the dump", plural(dump.not_understood, "line")));
    }
    let missing = dump.announced.saturating_sub(dump.count());
    if missing > 0 {
        limits.push(format!(
            "the dump announces {} that it does not contain or that plegctl left out",
            plural(missing, "goroutine")
        ));
    }
    limits
}

/// Returns the functions of a goroutine, innermost first.
fn functions(goroutine: &Goroutine) -> impl Iterator<Item = &str> {
    goroutine.frames.iter().map(|frame| &*frame.function)
}

fn goroutines_by_id(dump: &Dump) -> HashMap<u64, &Goroutine> {
    dump.goroutines.iter().filter_map(|goroutine| Some((goroutine.id?, goroutine))).collect()
}

/// Returns whether two dumps are of the same process: the same program, no different process ids, and enough goroutines
/// with the same id and the same functions.
#[expect(clippy::cast_precision_loss, reason = "a share of at most a million")]
fn same_process(programs: &[Program], sources: &[DumpSource], one: usize, other: usize) -> bool {
    let (Some(one_program), Some(other_program), Some(first), Some(second)) =
        (programs.get(one), programs.get(other), sources.get(one), sources.get(other))
    else {
        return false;
    };
    if one_program.daemon != other_program.daemon
        || (first.pid.is_some() && second.pid.is_some() && first.pid != second.pid)
    {
        return false;
    }
    let before = goroutines_by_id(&first.dump);
    let common = second
        .dump
        .goroutines
        .iter()
        .filter(|goroutine| {
            goroutine
                .id
                .and_then(|id| before.get(&id))
                .is_some_and(|earlier| functions(earlier).eq(functions(goroutine)))
        })
        .count();
    let smaller = before.len().min(second.dump.goroutines.len());
    smaller > 0 && common as f64 >= smaller as f64 * MIN_COMMON_SHARE
}

/// Whether two dumps of one process are far enough apart in time to be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DumpGap {
    /// The dumps are far enough apart.
    Enough,
    /// The dumps are too close.
    TooShort,
    /// Both are the same dump.
    SameDump,
}

impl DumpGap {
    /// Compares the timestamps of two dumps if both have one: in a quiet process, two dumps may be equal. Without
    /// timestamps, two different dumps are assumed to be far enough apart.
    fn of(earlier: &DumpSource, later: &DumpSource) -> Self {
        match time_between(earlier, later) {
            Some(time) if time < BETWEEN_DUMPS => return Self::TooShort,
            Some(_) => return Self::Enough,
            None => {}
        }
        let same = is_same_dump(&earlier.dump, &later.dump);
        if same { Self::SameDump } else { Self::Enough }
    }

    /// Tells the user why the dumps were not compared.
    const fn limit(self) -> Option<&'static str> {
        match self {
            Self::Enough => None,
            Self::TooShort => Some(
                "the dumps are less than ten seconds apart, so goroutines that are in both prove nothing",
            ),
            Self::SameDump => Some("both dumps are the same: they show one moment, not two"),
        }
    }
}

/// Returns whether two dumps show one moment. Two dumps of a kubelet differ at least in the goroutine that writes the dump.
pub(crate) fn is_same_dump(one: &Dump, other: &Dump) -> bool {
    let (one, other) = (&one.goroutines, &other.goroutines);
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            (one.id, &one.state, one.minutes) == (other.id, &other.state, other.minutes)
                && one.frames.len() == other.frames.len()
                && one
                    .frames
                    .iter()
                    .zip(&other.frames)
                    .all(|(one, other)| one.function == other.function && one.arguments == other.arguments)
        })
}

/// Returns the time between two dumps, if both have a timestamp.
fn time_between(earlier: &DumpSource, later: &DumpSource) -> Option<Duration> {
    let time_of = |source: &DumpSource| {
        let text = source
            .dump
            .taken_at
            .as_ref()
            .or(source.taken_at.as_ref().filter(|_| source.is_requested_here))?;
        humantime::parse_rfc3339(text).ok()
    };
    let (before, after) = (time_of(earlier)?, time_of(later)?);
    after.duration_since(before).or_else(|_| before.duration_since(after)).ok()
}

/// The goroutines that wait in two dumps at the same place.
struct Stuck {
    /// The goroutines as indexes in the later dump.
    goroutines: BTreeSet<usize>,
    /// The time between the dumps, if both have a timestamp.
    time_between: Option<Duration>,
}

/// Returns the goroutines that are at the same place in both dumps, as indexes in the later dump: same id, same
/// functions, and no different argument among those that are certain in both.
fn stuck_goroutines(earlier: &Dump, later: &Dump) -> BTreeSet<usize> {
    let before = goroutines_by_id(earlier);
    later
        .goroutines
        .iter()
        .enumerate()
        .filter(|(_, goroutine)| {
            !goroutine.frames.is_empty()
                && goroutine
                    .id
                    .and_then(|id| before.get(&id))
                    .is_some_and(|earlier| is_same_wait(earlier, goroutine))
        })
        .map(|(at, _)| at)
        .collect()
}

/// Returns whether two goroutines with the same id wait at the same place: in the same state, in the same functions, and with
/// no different argument among those that are certain in both.
pub(crate) fn is_same_wait(one: &Goroutine, other: &Goroutine) -> bool {
    let certain = |words: (u64, bool)| words.1.then_some(words.0);
    let same_words = |one: &Frame, other: &Frame| {
        one.words().map(certain).zip(other.words().map(certain)).all(|pair| match pair {
            (Some(before), Some(after)) => before == after,
            _ => true,
        })
    };
    one.state == other.state
        && functions(one).eq(functions(other))
        && one.frames.iter().zip(&other.frames).all(|(one, other)| same_words(one, other))
}

/// The role of a goroutine according to the signatures. The number is the index of the signature.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GoroutineRole {
    /// Waits for the cause that the signature describes.
    Root(usize),
    /// Waits behind a root of the signature.
    Waiter(usize),
    /// Waits as in a healthy daemon.
    Normal,
    /// Does not wait, or waits for something that no signature describes.
    Other,
}

/// Judges one dump. All positions of goroutines are indexes in this dump.
struct Judge<'a> {
    /// The index of the dump in the report.
    number: usize,
    dump: &'a Dump,
    past: Option<PastDump>,
    daemon: Daemon,
    /// The goroutines that are also in an earlier dump of the process, if one was compared.
    stuck: Option<Stuck>,
    contentions: Vec<Contention>,
    starts: Starts,
    /// For each goroutine, the call that it serves or makes itself.
    calls: Vec<Option<&'a str>>,
    /// For each goroutine, its role.
    roles: Vec<GoroutineRole>,
}

/// The result for one dump.
struct Judged {
    findings: Vec<Finding>,
    /// The waits that the report lists.
    waits: Vec<Wait>,
    /// The number of all waits.
    waiting: usize,
    groups: Vec<StackGroup>,
}

impl<'a> Judge<'a> {
    fn goroutine(&self, at: usize) -> Option<&'a Goroutine> {
        self.dump.goroutines.get(at)
    }

    fn run(mut self, signatures: &[Signature], known_hangs: &KnownHangs) -> Judged {
        let stacks = Stacks::of(self.dump);
        let calls: Vec<Option<&str>> = stacks
            .examples
            .iter()
            .map(|at| wait::cri_call(self.dump.goroutines.get(*at)?).map(|call| call.rpc))
            .collect();
        self.calls = stacks.of.iter().map(|stack| calls.get(*stack).copied().flatten()).collect();
        let roles: Vec<GoroutineRole> = stacks
            .examples
            .iter()
            .map(|at| {
                self.goroutine(*at).map_or(GoroutineRole::Other, |goroutine| self.role(goroutine, signatures))
            })
            .collect();
        self.roles = stacks
            .of
            .iter()
            .map(|stack| roles.get(*stack).copied().unwrap_or(GoroutineRole::Other))
            .collect();
        self.join_loops(signatures);
        self.join_stops(signatures);
        let explained_by = self.explained_by(signatures.len());
        let mut findings: Vec<Finding> = signatures
            .iter()
            .enumerate()
            .filter_map(|(nth, signature)| self.finding(nth, signature, &explained_by, known_hangs))
            .collect();
        findings.extend(self.unexplained(&explained_by, known_hangs));
        findings.extend(self.cycles());
        let explained: BTreeSet<usize> =
            explained_by.iter().enumerate().filter(|(_, by)| by.is_some()).map(|(at, _)| at).collect();
        let waiting = self.contentions.iter().map(|contention| contention.waiters.len()).sum();
        Judged { findings, waits: self.waits(&explained), waiting, groups: stacks.groups(self.dump) }
    }

    /// Decides the role of a goroutine by its own frames.
    fn role(&self, goroutine: &Goroutine, signatures: &[Signature]) -> GoroutineRole {
        let does_not_wait = matches!(&*goroutine.state, "running" | "runnable" | "idle" | "dead");
        if does_not_wait || goroutine.frames.is_empty() {
            return GoroutineRole::Other;
        }
        let is_for_daemon = |signature: &&Signature| {
            signature.daemons.is_empty()
                || self.daemon == Daemon::Unknown
                || signature.daemons.contains(&self.daemon)
        };
        let matches = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(goroutine));
        let first_signature = |test: &dyn Fn(&Signature) -> bool| {
            signatures
                .iter()
                .enumerate()
                .find(|(_, signature)| is_for_daemon(signature) && test(signature))
                .map(|(nth, _)| nth)
        };
        // A goroutine that waits for a lock waits behind a cause, even if its frames match those of a root.
        let waits_for_lock = wait::awaited_lock(goroutine).is_some();
        if !waits_for_lock && let Some(nth) = first_signature(&|signature| matches(&signature.roots)) {
            return if is_normal(goroutine) { GoroutineRole::Normal } else { GoroutineRole::Root(nth) };
        }
        if let Some(nth) = first_signature(&|signature| matches(&signature.waiters)) {
            return GoroutineRole::Waiter(nth);
        }
        if is_normal(goroutine) { GoroutineRole::Normal } else { GoroutineRole::Other }
    }

    /// Makes a waiting sync loop part of the finding about PLEG, if PLEG waits too: both wait for the same runtime.
    fn join_loops(&mut self, signatures: &[Signature]) {
        let position = |id: &str| signatures.iter().position(|signature| signature.id == id);
        if let (Some(pleg), Some(sync_loop)) = (position("ST13"), position("ST14"))
            && self.roles.contains(&GoroutineRole::Root(pleg))
        {
            for role in self.roles.iter_mut().filter(|role| **role == GoroutineRole::Root(sync_loop)) {
                *role = GoroutineRole::Waiter(pleg);
            }
        }
    }

    /// Makes a stop of a container part of the finding about the OCI runtime, if another goroutine waits for the OCI
    /// runtime of the same container.
    fn join_stops(&mut self, signatures: &[Signature]) {
        let position = |id: &str| signatures.iter().position(|signature| signature.id == id);
        let (Some(oci), Some(stop)) = (position("ST06"), position(conmon::SIGNATURE)) else { return };
        let container_of = |at: usize| self.dump.goroutines.get(at).and_then(conmon::container_address);
        let containers: BTreeSet<u64> =
            self.with_role(GoroutineRole::Root(oci)).into_iter().filter_map(container_of).collect();
        let joined: Vec<usize> = self
            .with_role(GoroutineRole::Root(stop))
            .into_iter()
            .filter(|at| container_of(*at).is_some_and(|container| containers.contains(&container)))
            .collect();
        for at in joined {
            if let Some(role) = self.roles.get_mut(at) {
                *role = GoroutineRole::Waiter(oci);
            }
        }
    }

    fn with_role(&self, role: GoroutineRole) -> Vec<usize> {
        self.roles.iter().enumerate().filter(|(_, own)| **own == role).map(|(at, _)| at).collect()
    }

    /// Returns the whole minutes that Go prints for a goroutine, or for a goroutine that it started and waits for. A
    /// goroutine in a system call has no age before the next garbage collection, but the goroutine that it started may
    /// have one.
    fn minutes(&self, at: usize) -> Option<u32> {
        let goroutine = self.goroutine(at)?;
        let innermost = goroutine.frames.get(wait::innermost_frame(goroutine)).map(|frame| &*frame.function);
        let waits_for_child =
            matches!(wait::external_wait(goroutine), Some(ExternalWait::Child(_) | ExternalWait::Pipe));
        let belongs_to_wait = |creator: &str| {
            (waits_for_child && creator == "os/exec.(*Cmd).Start")
                || (self.call(at).is_some() && Some(creator) == innermost)
        };
        let ages_of_started = self.starts.started_by(at).iter().filter_map(|started| {
            let started = self.goroutine(*started)?;
            let creator = started.created_by.as_ref();
            started.minutes.filter(|_| creator.is_some_and(|creator| belongs_to_wait(&creator.function)))
        });
        ages_of_started.chain(goroutine.minutes).max()
    }

    /// Returns how long a goroutine has waited, by its age, by an earlier dump and by its child process.
    fn waited(&self, at: usize) -> WaitTime {
        let in_both = self.stuck.as_ref().filter(|stuck| stuck.goroutines.contains(&at));
        let child_age = self.goroutine(at).and_then(|goroutine| goroutine.child_age);
        WaitTime::of(self.minutes(at), in_both.and_then(|stuck| stuck.time_between), child_age)
    }

    /// Returns how long the goroutines of a finding have waited. The roots wait for the cause, so their estimate counts
    /// if there is one. A call of the finding that was measured to hang `on_the_wire` makes the estimate longer; the child
    /// processes of the roots limit it. `counts` selects goroutines.
    fn waited_together(
        &self,
        roots: &[usize],
        waiters: &BTreeSet<usize>,
        on_the_wire: Option<Duration>,
        counts: impl Fn(&usize) -> bool,
    ) -> WaitTime {
        let longest = |goroutines: &mut dyn Iterator<Item = &usize>| {
            goroutines.filter(|at| counts(at)).map(|at| self.waited(*at)).fold(
                WaitTime::default(),
                |one, other| WaitTime {
                    about: one.about.max(other.about),
                    at_least: one.at_least.max(other.at_least),
                },
            )
        };
        let (of_roots, of_waiters) = (longest(&mut roots.iter()), longest(&mut waiters.iter()));
        let about = of_roots.about.or(of_waiters.about).max(on_the_wire);
        let at_least = of_roots.at_least.max(of_waiters.at_least);
        WaitTime { about, at_least }.for_child(self.oldest_child(roots))
    }

    /// Returns the age of the oldest child process for which the roots wait, if the child of each root is known.
    fn oldest_child(&self, roots: &[usize]) -> Option<Duration> {
        let ages = roots.iter().map(|at| self.goroutine(*at)?.child_age);
        ages.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Returns whether a goroutine of CRI-O waits too long for conmon or for a container to end.
    fn is_overdue(&self, at: usize) -> bool {
        let wait = self.goroutine(at).and_then(conmon::ConmonWait::of);
        // Two dumps without a timestamp are assumed to be far enough apart.
        let in_both = self.stuck.as_ref().is_some_and(|stuck| stuck.goroutines.contains(&at));
        let waited = self.waited(at).at_least.max(if in_both { BETWEEN_DUMPS } else { Duration::ZERO });
        wait.is_some_and(|wait| wait.is_overdue(waited))
    }

    /// Returns the largest number of roots that wait for the exit of the same container.
    fn waits_for_same_exit(&self, roots: &[usize]) -> usize {
        let mut by_container: BTreeMap<u64, usize> = BTreeMap::new();
        for at in roots {
            if let Some(conmon::ConmonWait::Exit(Some(container))) =
                self.goroutine(*at).and_then(conmon::ConmonWait::of)
            {
                *by_container.entry(container).or_default() += 1;
            }
        }
        by_container.into_values().max().unwrap_or(0)
    }

    /// Returns the signature of which a goroutine is a root.
    fn root_of(&self, at: usize) -> Option<usize> {
        match self.roles.get(at) {
            Some(GoroutineRole::Root(nth)) => Some(*nth),
            _ => None,
        }
    }

    /// Returns the signature of which a goroutine, or a goroutine that it started, is a root.
    fn cause(&self, at: usize) -> Option<usize> {
        let started = || self.starts.started_by(at).iter();
        self.root_of(at).or_else(|| started().find_map(|started| self.root_of(*started)))
    }

    /// Returns for each contention the signature that explains it. A signature explains a contention for one of three
    /// reasons: a candidate for its holder is a root, the candidate waits for another lock that is explained, or its
    /// waiters match the signature.
    fn explained_by(&self, signatures: usize) -> Vec<Option<usize>> {
        let mut explained_by: Vec<Option<usize>> = self
            .contentions
            .iter()
            .map(|contention| contention.holders.iter().find_map(|holder| self.cause(*holder)))
            .collect();
        let contention_of_waiter: HashMap<usize, usize> = self
            .contentions
            .iter()
            .enumerate()
            .flat_map(|(nth, contention)| contention.waiters.iter().map(move |waiter| (*waiter, nth)))
            .collect();
        // A holder may wait for a lock whose holder waits for another lock. Each round follows one more of these steps.
        for _ in 0..self.contentions.len().min(8) {
            let before = explained_by.clone();
            for (nth, contention) in self.contentions.iter().enumerate() {
                if before.get(nth).copied().flatten().is_some() {
                    continue;
                }
                let by_holder = contention
                    .holders
                    .iter()
                    .find_map(|holder| before.get(*contention_of_waiter.get(holder)?).copied().flatten());
                if let Some(slot) = explained_by.get_mut(nth) {
                    *slot = by_holder;
                }
            }
            if before == explained_by {
                break;
            }
        }
        // Without a holder, a waiter that matches a signature is enough, if the dump has a root of that signature.
        let mut has_root = vec![false; signatures];
        for role in &self.roles {
            if let GoroutineRole::Root(nth) = role
                && let Some(slot) = has_root.get_mut(*nth)
            {
                *slot = true;
            }
        }
        for (slot, contention) in explained_by.iter_mut().zip(&self.contentions) {
            if slot.is_none() && contention.holders.is_empty() {
                *slot = contention.waiters.iter().find_map(|waiter| match self.roles.get(*waiter) {
                    Some(GoroutineRole::Waiter(nth)) if has_root.get(*nth) == Some(&true) => Some(*nth),
                    _ => None,
                });
            }
        }
        explained_by
    }

    /// Makes the finding of a signature, if the dump has a root of the signature.
    fn finding(
        &self,
        nth: usize,
        signature: &Signature,
        explained_by: &[Option<usize>],
        known_hangs: &KnownHangs,
    ) -> Option<Finding> {
        let mut roots = self.with_role(GoroutineRole::Root(nth));
        if roots.is_empty() || roots.len() < signature.least {
            return None;
        }
        let explained: Vec<&Contention> = self
            .contentions
            .iter()
            .zip(explained_by)
            .filter(|(_, by)| **by == Some(nth))
            .map(|(contention, _)| contention)
            .collect();
        // The most important root holds the lock for which a list call waits, otherwise the lock with the most waiters,
        // otherwise it waits longest.
        let weight = |contention: &Contention| {
            let is_list = |at: &usize| self.call(*at).is_some_and(|call| LIST_CALLS.contains(&call));
            (contention.waiters.iter().any(is_list), contention.waiters.len())
        };
        let mut weight_of_holder: HashMap<usize, (bool, usize)> = HashMap::new();
        for contention in &explained {
            let weight = weight(contention);
            for holder in &contention.holders {
                for at in self.starts.started_by(*holder).iter().chain([holder]) {
                    let largest = weight_of_holder.entry(*at).or_default();
                    *largest = (*largest).max(weight);
                }
            }
        }
        roots.sort_by_key(|root| {
            let weight = weight_of_holder.get(root);
            (Reverse(weight), Reverse(self.is_overdue(*root)), Reverse(self.waited(*root)))
        });
        let mut waiters: BTreeSet<usize> =
            explained.iter().flat_map(|contention| contention.waiters.iter().copied()).collect();
        let by_address = explained.iter().any(|contention| !contention.holders.is_empty());
        waiters.extend(
            self.roles
                .iter()
                .enumerate()
                .filter(|(at, role)| {
                    // A goroutine that waits for a lock is a waiter only if the lock's contention is explained.
                    **role == GoroutineRole::Waiter(nth)
                        && self
                            .goroutine(*at)
                            .is_some_and(|goroutine| wait::awaited_lock(goroutine).is_none())
                })
                .map(|(at, _)| at),
        );
        let lock = explained
            .iter()
            .max_by_key(|contention| weight(contention))
            .map(|contention| words::lock_name(&contention.at).to_owned());
        Some(self.assemble(signature, &roots, &waiters, lock, by_address, known_hangs))
    }

    /// Returns the call for which a goroutine works: its own call, or the call of the goroutine that started it.
    fn call(&self, at: usize) -> Option<&'a str> {
        let own = self.calls.get(at).copied().flatten();
        own.or_else(|| self.calls.get(self.starts.starter_of(at)?).copied().flatten())
    }

    /// Returns the number of goroutines at an index: more than 1 only in a profile.
    fn count(&self, at: usize) -> u64 {
        self.goroutine(at).map_or(0, |goroutine| goroutine.count)
    }

    /// Makes a finding from its roots and waiters. `by_address` means that addresses lead from the waiters to the roots.
    fn assemble(
        &self,
        signature: &Signature,
        roots: &[usize],
        waiters: &BTreeSet<usize>,
        lock: Option<String>,
        by_address: bool,
        known_hangs: &KnownHangs,
    ) -> Finding {
        let rpcs = self.rpcs(roots.iter().chain(waiters).copied());
        let first_root = roots.first().and_then(|root| self.goroutine(*root));
        let root_call = roots.first().and_then(|root| self.call(*root));
        let assessment = self.assess(signature, roots, waiters, by_address, &rpcs, known_hangs);
        let (confidence, time) = (assessment.confidence, assessment.waited);
        let waiting: u64 = waiters.iter().map(|at| self.count(*at)).sum();
        let target = self.target(signature, roots, root_call);
        let full_severity = match signature.severity {
            Severity::Info => Severity::Info,
            severity if by_address && rpcs.iter().any(|rpc| LIST_CALLS.contains(&rpc.as_str())) => {
                severity.max(Severity::Critical)
            }
            severity => severity,
        };
        let severity = if confidence == Confidence::Possible { Severity::Info } else { full_severity };
        let compared = self.stuck.is_some();
        let next = signature.act.iter().filter(|act| !(compared && *act == TWO_DUMPS));
        let holder = first_root.map(|root| Holder {
            goroutine: root.id,
            function: own_function(root),
            waits_for: WaitsFor { kind: target.0, pid: None, path: None, state: None },
            pod: None,
            container: None,
        });
        let chain = Chain {
            dump: self.number,
            behind: self.behind(waiters),
            lock,
            root_call: words::kubelet_loop(&signature.id).or(root_call).map(str::to_owned),
            root_count: roots.iter().map(|root| self.count(*root)).sum(),
            root_frames: first_root.map(own_frames).unwrap_or_default(),
            target: target.1,
            hangs: signature.hangs.clone(),
            roots: roots.to_vec(),
            full_severity: Some(full_severity),
            by_address,
            compared,
            is_proven: assessment.is_proven,
            past: self.past,
            recorded: None,
        };
        Finding {
            id: signature.id.clone(),
            title: signature.title.clone(),
            severity,
            confidence,
            rpcs,
            waiters: waiting,
            waited_seconds: time.about.map(Seconds::from),
            waited_at_least: time.is_lower_bound(),
            holder,
            evidence: assessment.evidence,
            next: next.cloned().collect(),
            threads: self.threads(signature, roots, waiters),
            chain,
        }
    }

    /// Returns the kind and the name of what the first root waits for. If the roots wait for several shims, the name is
    /// their number.
    fn target(&self, signature: &Signature, roots: &[usize], rpc: Option<&str>) -> (WaitKind, String) {
        let Some(root) = roots.first().and_then(|root| self.goroutine(*root)) else {
            return (WaitKind::Unknown, String::new());
        };
        if signature.id == conmon::SIGNATURE
            && let Some(wait) = conmon::ConmonWait::of(root)
        {
            return (WaitKind::Process, wait.target().to_owned());
        }
        let (kind, name) = words::wait_target(wait::external_wait(root), &signature.id, rpc);
        if kind != WaitKind::Shim || roots.len() == 1 {
            return (kind, name);
        }
        let shims: BTreeSet<u64> =
            roots.iter().filter_map(|at| wait::shim_client(self.goroutine(*at)?)).collect();
        let name = match shims.len() {
            1 => "one shim".to_owned(),
            several => plural(several, "shim"),
        };
        (kind, name)
    }

    /// Decides the confidence of a finding and lists the evidence for it.
    fn assess(
        &self,
        signature: &Signature,
        roots: &[usize],
        waiters: &BTreeSet<usize>,
        by_address: bool,
        rpcs: &[String],
        known_hangs: &KnownHangs,
    ) -> Assessment {
        let roots_and_waiters = || roots.iter().chain(waiters).copied();
        // The age of a stop is no evidence for ST15, because its caller chooses the time, unless goroutines wait behind
        // it.
        let has_grace_period = |at: usize| {
            signature.id == "ST15"
                && !by_address
                && self.call(at).is_some_and(|call| CALLS_WITH_GRACE_PERIOD.contains(&call))
        };
        let measured: Vec<&str> =
            rpcs.iter().filter(|rpc| known_hangs.hanging.contains_key(*rpc)).map(String::as_str).collect();
        let on_the_wire = measured.iter().filter_map(|rpc| known_hangs.hanging.get(*rpc)).max().copied();
        let waited = self.waited_together(roots, waiters, on_the_wire, |at| !has_grace_period(*at));
        // A root that waits for a younger child was not there in the first dump.
        let is_too_young = self.oldest_child(roots).is_some_and(|age| age < BETWEEN_DUMPS);
        let stuck = |at: &usize| {
            !is_too_young && self.stuck.as_ref().is_some_and(|stuck| stuck.goroutines.contains(at))
        };
        let is_evidence = |at: &usize| by_address || self.call(*at) != Some(LONG_WRITING_CALL);
        let in_both = roots_and_waiters().filter(|at| stuck(at) && is_evidence(at)).count();
        let loops = self.loops(signature, roots, waiters);
        let mut evidence = Vec::new();
        let first = roots.first().and_then(|root| self.goroutine(*root));
        evidence.extend(first.map(position));
        evidence.extend(first.and_then(wait::shim_call).map(|rpc| format!("it waits for {rpc} over ttrpc")));
        let same_exit = self.waits_for_same_exit(roots);
        if signature.id == conmon::SIGNATURE {
            evidence.extend(first.and_then(conmon::ConmonWait::of).and_then(conmon::ConmonWait::evidence));
            if same_exit >= MIN_WAITS_FOR_EXIT {
                evidence.push(format!("{same_exit} calls wait for the exit of one container"));
            }
        }
        if by_address {
            let waiting: u64 = waiters.iter().map(|at| self.count(*at)).sum();
            let verb = if waiting == 1 { "waits" } else { "wait" };
            let waiting = plural(waiting, "goroutine");
            evidence.push(format!("{waiting} {verb} for it, which the addresses in the stacks prove"));
        }
        let lasted = words::waited(waited.about.map(Seconds::from), waited.is_lower_bound());
        if !lasted.is_empty() {
            evidence.push(format!("the wait has lasted{lasted}"));
        }
        if in_both > 0 {
            let in_both = in_both.try_into().unwrap_or(u64::MAX);
            evidence.push(format!("{} in both dumps", plural(in_both, "goroutine")));
        }
        if !measured.is_empty() {
            evidence.push(format!("measured to hang: {}", measured.join(", ")));
        }
        if loops >= MIN_WAITING_LOOPS {
            evidence.push(format!("{loops} loops of the kubelet wait for the runtime at the same time"));
        }
        let expected = Duration::from_secs(u64::from(signature.overdue_minutes) * 60);
        let seems_late = waited.about.is_some_and(|about| about >= expected);
        let lasting = if signature.id == conmon::SIGNATURE {
            same_exit >= MIN_WAITS_FOR_EXIT || roots.iter().any(|at| self.is_overdue(*at))
        } else {
            waited.at_least >= expected || (in_both > 0 && signature.overdue_minutes <= 1)
        };
        let has_loops = loops >= MIN_WAITING_LOOPS;
        let confidence = match () {
            () if !measured.is_empty() || (lasting && by_address) => Confidence::Certain,
            () if lasting || has_loops || (seems_late && signature.id != conmon::SIGNATURE) => {
                Confidence::Likely
            }
            () => Confidence::Possible,
        };
        let is_proven = !measured.is_empty() || lasting || has_loops;
        Assessment { confidence, is_proven, waited, evidence }
    }

    /// Returns the number of kubelet loops that wait for the same call as PLEG; 0 for other signatures than ST13.
    fn loops(&self, signature: &Signature, roots: &[usize], waiters: &BTreeSet<usize>) -> usize {
        if signature.id != "ST13" {
            return 0;
        }
        let same = roots.first().and_then(|root| self.call(*root));
        roots.iter().chain(waiters).filter(|at| self.call(**at) == same).count()
    }

    /// Returns the calls of goroutines, the most frequent first.
    fn rpcs(&self, goroutines: impl Iterator<Item = usize>) -> Vec<String> {
        let mut by_call: BTreeMap<&str, u64> = BTreeMap::new();
        for at in goroutines {
            if let Some(call) = self.call(at) {
                *by_call.entry(call).or_default() += self.count(at);
            }
        }
        let mut calls: Vec<(&str, u64)> = by_call.into_iter().collect();
        calls.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        calls.into_iter().map(|(call, _)| call.to_owned()).collect()
    }

    /// Groups waiters by their call and their function, the largest group first.
    fn behind(&self, waiters: &BTreeSet<usize>) -> Vec<WaitersBehind> {
        let mut behind: BTreeMap<(Option<&str>, &str), u64> = BTreeMap::new();
        for at in waiters {
            let Some(goroutine) = self.goroutine(*at) else { continue };
            let frame =
                goroutine.frames.get(wait::innermost_frame(goroutine)).or_else(|| goroutine.frames.first());
            let function = frame.map_or("", |frame| frame.short());
            *behind.entry((self.call(*at), function)).or_default() += goroutine.count;
        }
        let mut behind: Vec<WaitersBehind> = behind
            .into_iter()
            .map(|((call, at), count)| WaitersBehind {
                count,
                call: call.map(str::to_owned),
                at: at.to_owned(),
            })
            .collect();
        behind.sort_by(|one, other| {
            other.count.cmp(&one.count).then_with(|| (&one.call, &one.at).cmp(&(&other.call, &other.at)))
        });
        behind
    }

    /// Returns the issue threads of a signature and those whose frames a goroutine of the finding has.
    fn threads(&self, signature: &Signature, roots: &[usize], waiters: &BTreeSet<usize>) -> Vec<String> {
        let mut threads = signature.threads.clone();
        // To examine a few roots and waiters is enough: the others have similar frames.
        let examined: Vec<&Goroutine> =
            roots.iter().take(8).chain(waiters.iter().take(8)).filter_map(|at| self.goroutine(*at)).collect();
        for (thread, pattern) in issue_threads() {
            let known = threads.iter().any(|known| known == thread);
            if !known && examined.iter().any(|goroutine| pattern.matches(goroutine)) {
                threads.push(thread.to_owned());
            }
        }
        threads
    }

    /// Makes a finding for each lock with several waiters that no signature explains.
    fn unexplained(&self, explained_by: &[Option<usize>], known_hangs: &KnownHangs) -> Vec<Finding> {
        let Some(lock) = unexplained_lock() else { return Vec::new() };
        let mut found = Vec::new();
        for (contention, by) in self.contentions.iter().zip(explained_by) {
            let waiting: u64 = contention.waiters.iter().map(|at| self.count(*at)).sum();
            if by.is_some() || waiting < 2 {
                continue;
            }
            let waiters = contention.waiters.iter().copied().collect();
            let lock_name = words::lock_name(&contention.at);
            let mut finding = self.assemble(
                &lock,
                &contention.holders,
                &waiters,
                Some(lock_name.to_owned()),
                !contention.holders.is_empty(),
                known_hangs,
            );
            // Without a signature, addresses alone make a finding no more than likely.
            if finding.confidence == Confidence::Certain {
                finding.confidence = Confidence::Likely;
            }
            if contention.holders.len() > 1 {
                finding.evidence.push(format!("{} candidates for the holder", contention.holders.len()));
            }
            finding
                .evidence
                .extend(contention.reason.map(|reason| format!("candidate: {}", reason.description())));
            found.push(finding);
        }
        found.sort_by_key(|finding| Reverse(finding.waiters));
        found
    }

    /// Makes a finding for each cycle of waiters.
    fn cycles(&self) -> Vec<Finding> {
        let Some(lock) = unexplained_lock() else { return Vec::new() };
        let mut found = Vec::new();
        for cycle in holders::cycles(&self.contentions) {
            let waiters: BTreeSet<usize> = cycle.iter().copied().collect();
            let mut finding = self.assemble(&lock, &cycle, &waiters, None, false, &KnownHangs::default());
            let ids: Vec<String> =
                cycle.iter().filter_map(|at| self.goroutine(*at)?.id).map(|id| id.to_string()).collect();
            "goroutines wait for each other in a cycle".clone_into(&mut finding.title);
            finding.evidence = vec![format!(
                "goroutine {}, which waits for the first: a deadlock, if the candidates hold the locks",
                ids.join(" waits for goroutine ")
            )];
            "each other".clone_into(&mut finding.chain.target);
            finding.chain.behind.clear();
            found.push(finding);
        }
        found
    }

    /// Lists the goroutines that wait for a lock. `explained` has the contentions that a signature explains.
    fn waits(&self, explained: &BTreeSet<usize>) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (nth, contention) in self.contentions.iter().enumerate() {
            let ids = |goroutines: &[usize]| -> Vec<u64> {
                goroutines.iter().take(MAX_LISTED_IDS).filter_map(|at| self.goroutine(*at)?.id).collect()
            };
            let confidence = match (contention.reason, contention.holders.len()) {
                (Some(_), _) if explained.contains(&nth) => Confidence::Certain,
                (Some(HolderReason::SameObject(_) | HolderReason::ContainsLock), 1) => Confidence::Likely,
                _ => Confidence::Possible,
            };
            let holders = ids(&contention.holders);
            for at in &contention.waiters {
                if waits.len() == MAX_LISTED {
                    return waits;
                }
                let Some(goroutine) = self.goroutine(*at) else { continue };
                let Some(lock) = wait::awaited_lock(goroutine) else { continue };
                let waited = self.waited(*at);
                let at_frame = goroutine.frames.get(lock.owner);
                // A waiting writer blocks new readers, but no other writers.
                let pending: &[usize] = if lock.kind == LockKind::Read { &contention.writers } else { &[] };
                waits.push(Wait {
                    dump: None,
                    goroutine: goroutine.id,
                    call: self.call(*at).map(str::to_owned),
                    lock: lock.kind.as_str(),
                    at: at_frame.map_or_else(String::new, |frame| frame.function.to_string()),
                    waited_seconds: waited.about.map(Seconds::from),
                    waited_at_least: waited.is_lower_bound(),
                    holders: holders.clone(),
                    why: contention.reason.map(HolderReason::description),
                    behind_writers: ids(pending),
                    confidence,
                });
            }
        }
        waits
    }
}

/// The confidence of a finding, with its evidence.
struct Assessment {
    confidence: Confidence,
    /// Whether the wait is known to last, not only by an age that Go prints.
    is_proven: bool,
    waited: WaitTime,
    evidence: Vec<String>,
}

/// Describes where a root is: `goroutine 12 [select] is in F`.
fn position(root: &Goroutine) -> String {
    let subject = root.id.map_or_else(|| plural(root.count, "goroutine"), |id| format!("goroutine {id}"));
    let state = if root.state.is_empty() { String::new() } else { format!(" [{}]", root.state) };
    let verb = if root.count == 1 { "is" } else { "are" };
    format!("{subject}{state} {verb} in {}", own_function(root))
}

/// Returns the innermost function of a root that is not of a library.
fn own_function(root: &Goroutine) -> String {
    own_frames(root).into_iter().next().unwrap_or_default()
}

/// Returns a root's frames without those of libraries, innermost first, up to the handler of the call.
fn own_frames(root: &Goroutine) -> Vec<String> {
    let frames = root.frames.get(wait::innermost_frame(root)..).unwrap_or_default();
    let mut shown = Vec::new();
    for frame in frames {
        let function = &*frame.function;
        let of_library = meaning(&LIBRARIES, |library| function.contains(library)).is_some();
        if of_library || frame.short().starts_with("os.") {
            continue;
        }
        if function.contains("_Handler") {
            break;
        }
        shown.push(frame.short().to_owned());
    }
    if shown.is_empty() {
        shown.extend(root.frames.first().map(|frame| frame.short().to_owned()));
    }
    shown
}

/// The different stacks of a dump. Goroutines with equal states and functions have the same stack, so that roles are
/// decided once for each stack.
struct Stacks {
    /// For each goroutine, the number of its stack.
    of: Vec<usize>,
    /// For each stack, the first goroutine that has it.
    examples: Vec<usize>,
}

impl Stacks {
    /// Finds the stacks of a dump.
    fn of(dump: &Dump) -> Self {
        let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut stacks = Self { of: Vec::with_capacity(dump.goroutines.len()), examples: Vec::new() };
        for (at, goroutine) in dump.goroutines.iter().enumerate() {
            // Equal names share their memory, so the addresses of the names identify a stack.
            let mut key: Vec<usize> =
                goroutine.frames.iter().map(|frame| Arc::as_ptr(&frame.function).addr()).collect();
            key.push(Arc::as_ptr(&goroutine.state).addr());
            let next = stacks.examples.len();
            let stack = *known.entry(key).or_insert(next);
            if stack == next {
                stacks.examples.push(at);
            }
            stacks.of.push(stack);
        }
        stacks
    }

    /// Returns the stacks with their goroutines counted.
    fn groups(&self, dump: &Dump) -> Vec<StackGroup> {
        let mut groups: Vec<StackGroup> = self
            .examples
            .iter()
            .filter_map(|at| dump.goroutines.get(*at))
            .map(|goroutine| StackGroup {
                state: goroutine.state.to_string(),
                frames: goroutine
                    .frames
                    .iter()
                    .take(MAX_SHOWN_FRAMES)
                    .map(|frame| short(&frame.function).to_owned())
                    .collect(),
                ..StackGroup::default()
            })
            .collect();
        for (goroutine, stack) in dump.goroutines.iter().zip(&self.of) {
            if let Some(group) = groups.get_mut(*stack) {
                group.count += goroutine.count;
                let time = WaitTime::of(goroutine.minutes, None, goroutine.child_age);
                group.waited_seconds = group.waited_seconds.max(time.about.map(Seconds::from));
            }
        }
        groups
    }
}
