//! Combines waiters, holders and signatures into findings.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::conmon;
use super::daemon::{Daemon, identify};
use super::dump::{Dump, Form, Goroutine, short};
use super::holders::{self, Contention, Family, Reason};
use super::report::{
    Chain, DumpInfo, Finding, Holder, StackGroup, StackReport, Wait, WaitKind, WaitersBehind, WaitsFor,
};
use super::signatures::{LOCK, Pattern, Signature, THREADS, TWO_DUMPS, is_normal, normal};
use super::wait::{self, ExternalWait, LockKind};
use super::words;
use crate::report::{Confidence, Severity};

/// A dump and its source.
#[derive(Debug)]
pub struct DumpSource {
    /// The file, socket or URL.
    pub name: String,
    /// The dump.
    pub dump: Dump,
    /// The process, if known.
    pub pid: Option<u32>,
    /// When the dump was taken, or its file was written.
    pub taken_at: Option<String>,
    /// Whether plegctl requested the dump itself, so that `taken_at` is not the time of a copied file.
    pub fresh: bool,
}

/// What is known from other sources.
#[derive(Debug, Default)]
pub struct KnownHangs {
    /// Calls that were measured to hang while the dump was taken.
    pub hanging: BTreeSet<String>,
}

/// The list calls that PLEG needs.
const LISTS: [&str; 2] = ["ListContainers", "ListPodSandbox"];

/// Calls whose caller chooses how long they take, so that an age alone means nothing.
const GRACEFUL: [&str; 1] = ["StopContainer"];

/// This many loops of a kubelet do not wait for the same call by chance.
const LOOPS: usize = 3;

/// Two dumps that are closer than this may both show a short call.
pub const BETWEEN_DUMPS: Duration = Duration::from_secs(10);

/// This many calls do not wait for the exit of one container by chance.
const SAME_EXIT: usize = 2;

/// A call that writes as long as its image is large. Being in two dumps means nothing for it, unless other goroutines
/// wait behind it.
const WRITES_LONG: &str = "PullImage";

/// The most groups and waits that are listed; the rest is counted.
const LISTED: usize = 1000;

/// The most goroutine ids that one wait lists.
const LISTED_IDS: usize = 100;

/// The most frames that a group shows.
const SHOWN_FRAMES: usize = 40;

/// Two dumps are of one process if at least this share of the smaller dump is the same.
const SAME_PROCESS: f64 = 0.3;

/// Judges dumps: each process once, by its last dump, compared with its earlier ones.
pub fn judge(sources: &[DumpSource], signatures: &[Signature], known_hangs: &KnownHangs) -> StackReport {
    let known: Vec<Program> = sources.iter().map(|source| Program::of(&source.dump)).collect();
    let normal = normal();
    let mut findings = Vec::new();
    let mut waits = Vec::new();
    let mut waiting = 0;
    let mut limits = BTreeSet::new();
    let mut groups = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let later = || (at + 1..sources.len()).any(|other| same_process(&known, sources, at, other));
        if later() {
            continue;
        }
        let earlier = (0..at).rev().find(|other| same_process(&known, sources, *other, at));
        let apart = earlier.and_then(|other| Some(DumpGap::of(sources.get(other)?, source)));
        let stuck = match (earlier.and_then(|other| sources.get(other)), apart) {
            (Some(before), Some(DumpGap::Enough)) => Some(Stuck {
                positions: stuck(&before.dump, &source.dump),
                for_at_least: between(before, source).unwrap_or(BETWEEN_DUMPS),
            }),
            _ => None,
        };
        limits.extend(apart.and_then(DumpGap::limit).map(str::to_owned));
        let stuck_known = stuck.is_some();
        let judged = Judge::new(
            at,
            &source.dump,
            known.get(at).map_or(Daemon::Unknown, |known| known.daemon),
            stuck,
            &normal,
        )
        .run(signatures, &normal, known_hangs);
        findings.extend(judged.findings);
        waiting += judged.waiting;
        waits.extend(
            judged.waits.into_iter().map(|wait| Wait { dump: (sources.len() > 1).then_some(at), ..wait }),
        );
        groups.extend(judged.groups);
        limits.extend(limits_of(&source.dump, stuck_known));
    }
    groups.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.frames.cmp(&other.frames)));
    for (what, length) in [("groups", groups.len()), ("waits", waiting)] {
        if length > LISTED {
            limits.insert(format!("{} more {what} are not listed", length - LISTED));
        }
    }
    groups.truncate(LISTED);
    waits.truncate(LISTED);
    let mut report = StackReport {
        summary: String::new(),
        dumps: sources.iter().zip(&known).map(|(source, known)| info(source, known)).collect(),
        primary: None,
        findings,
        waits,
        groups,
        limits: limits.into_iter().collect(),
    };
    rebuild_summary(&mut report);
    report
}

/// Sorts the findings and rebuilds the summary and the primary finding after something was added. The order is:
/// confidence, findings with a holder first, severity.
pub fn rebuild_summary(report: &mut StackReport) {
    report.findings.sort_by_key(|finding| {
        let has_no_holder = finding.holder.is_none();
        (finding.confidence, has_no_holder, Reverse(finding.severity), Reverse(finding.waiters))
    });
    report.primary = report.findings.first().cloned();
    report.summary = match &report.primary {
        Some(finding) => words::sentence(finding),
        None => "no goroutine waits for another one".to_owned(),
    };
}

fn info(source: &DumpSource, known: &Program) -> DumpInfo {
    DumpInfo {
        source: source.name.clone(),
        daemon: known.daemon,
        pid: source.pid,
        go_version: known.go.clone(),
        taken_at: source.dump.taken_at.clone().or_else(|| source.taken_at.clone()),
        goroutines: source.dump.announced.max(source.dump.count()),
        not_understood: source.dump.not_understood,
    }
}

fn limits_of(dump: &Dump, compared: bool) -> Vec<String> {
    let mut limits = Vec::new();
    if dump.form == Form::Profile {
        limits.push(
            "a counted profile (debug=1) has no states, ages or arguments, so it does not show who holds a \
             lock or for how long; use debug=2"
                .to_owned(),
        );
    } else if !compared && !dump.goroutines.iter().any(|goroutine| goroutine.minutes.is_some()) {
        limits.push(
            "no goroutine in it has waited a minute yet: take a second dump a minute later to see what is \
             stuck"
                .to_owned(),
        );
    }
    if dump.not_understood > 0 {
        limits.push(format!("{} of its lines were not understood", dump.not_understood));
    }
    let missing = dump.announced.saturating_sub(dump.count());
    if missing > 0 {
        limits.push(format!(
            "{missing} of the goroutines that the dump announces are missing or were left out"
        ));
    }
    limits
}

/// What a dump shows about its program.
struct Program {
    daemon: Daemon,
    go: Option<String>,
}

impl Program {
    fn of(dump: &Dump) -> Self {
        let (daemon, go) = identify(dump);
        Self { daemon, go }
    }
}

/// The functions of a goroutine, for comparison.
fn shape(goroutine: &Goroutine) -> impl Iterator<Item = &str> {
    goroutine.frames.iter().map(|frame| &*frame.function)
}

fn by_id(dump: &Dump) -> HashMap<u64, &Goroutine> {
    dump.goroutines.iter().filter_map(|goroutine| Some((goroutine.id?, goroutine))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a share of at most a million")]
fn same_process(known: &[Program], sources: &[DumpSource], one: usize, other: usize) -> bool {
    let (Some(one_known), Some(other_known), Some(first), Some(second)) =
        (known.get(one), known.get(other), sources.get(one), sources.get(other))
    else {
        return false;
    };
    if one_known.daemon != other_known.daemon
        || (first.pid.is_some() && second.pid.is_some() && first.pid != second.pid)
    {
        return false;
    }
    let before = by_id(&first.dump);
    let same = second
        .dump
        .goroutines
        .iter()
        .filter(|goroutine| {
            goroutine
                .id
                .and_then(|id| before.get(&id))
                .is_some_and(|earlier| shape(earlier).eq(shape(goroutine)))
        })
        .count();
    let smaller = before.len().min(second.dump.goroutines.len());
    smaller > 0 && same as f64 >= smaller as f64 * SAME_PROCESS
}

/// How much time is between two dumps of one process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DumpGap {
    Enough,
    TooLittle,
    Same,
}

impl DumpGap {
    /// Compares their timestamps if both have one. Without timestamps, two files are assumed to be of two moments.
    fn of(earlier: &DumpSource, later: &DumpSource) -> Self {
        if between(earlier, later).is_some_and(|between| between < BETWEEN_DUMPS) {
            return Self::TooLittle;
        }
        let (one, other) = (&earlier.dump.goroutines, &later.dump.goroutines);
        let same = one.len() == other.len()
            && one.iter().zip(other).all(|(one, other)| {
                (one.id, &one.state, one.minutes) == (other.id, &other.state, other.minutes)
                    && one.frames.len() == other.frames.len()
                    && one.frames.iter().zip(&other.frames).all(|(one, other)| {
                        one.function == other.function && one.arguments == other.arguments
                    })
            });
        if same { Self::Same } else { Self::Enough }
    }

    const fn limit(self) -> Option<&'static str> {
        match self {
            Self::Enough => None,
            Self::TooLittle => Some(
                "the dumps are less than ten seconds apart, so goroutines that are in both prove nothing",
            ),
            Self::Same => Some("both dumps are the same: this shows one moment, not two"),
        }
    }
}

/// The time between two dumps, if both have a timestamp.
fn between(earlier: &DumpSource, later: &DumpSource) -> Option<Duration> {
    let stamp = |source: &DumpSource| {
        let text = source.dump.taken_at.as_ref().or(source.taken_at.as_ref().filter(|_| source.fresh))?;
        humantime::parse_rfc3339(text).ok()
    };
    let (before, after) = (stamp(earlier)?, stamp(later)?);
    after.duration_since(before).or_else(|_| before.duration_since(after)).ok()
}

/// The goroutines that wait in both dumps, and for how long at least.
struct Stuck {
    positions: BTreeSet<usize>,
    for_at_least: Duration,
}

/// The goroutines that wait in both dumps for the same thing: same id, same functions, same certain arguments.
fn stuck(earlier: &Dump, later: &Dump) -> BTreeSet<usize> {
    let before = by_id(earlier);
    let same = |one: &Goroutine, other: &Goroutine| {
        one.state == other.state
            && shape(one).eq(shape(other))
            && one.frames.iter().zip(&other.frames).all(|(one, other)| {
                let certain = |words: (u64, bool)| words.1.then_some(words.0);
                one.words().map(certain).zip(other.words().map(certain)).all(|pair| match pair {
                    (Some(before), Some(after)) => before == after,
                    _ => true,
                })
            })
    };
    later
        .goroutines
        .iter()
        .enumerate()
        .filter(|(_, goroutine)| {
            !goroutine.frames.is_empty()
                && goroutine.id.and_then(|id| before.get(&id)).is_some_and(|earlier| same(earlier, goroutine))
        })
        .map(|(at, _)| at)
        .collect()
}

/// The role of a goroutine according to the signatures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GoroutineRole {
    Root(usize),
    Queue(usize),
    Normal,
    Nobody,
}

struct Judge<'a> {
    number: usize,
    dump: &'a Dump,
    daemon: Daemon,
    stuck: Option<Stuck>,
    contentions: Vec<Contention>,
    family: Family,
    /// The call that each goroutine serves or makes itself.
    calls: Vec<Option<&'a str>>,
    roles: Vec<GoroutineRole>,
}

struct Judged {
    findings: Vec<Finding>,
    /// The waits that are listed.
    waits: Vec<Wait>,
    /// How many waits there are.
    waiting: usize,
    groups: Vec<StackGroup>,
}

impl<'a> Judge<'a> {
    fn new(number: usize, dump: &'a Dump, daemon: Daemon, stuck: Option<Stuck>, normal: &[Pattern]) -> Self {
        let contentions = holders::contentions(dump, &|goroutine| is_normal(goroutine, normal));
        Self {
            number,
            dump,
            daemon,
            stuck,
            contentions,
            family: Family::of(dump),
            calls: Vec::new(),
            roles: Vec::new(),
        }
    }

    fn goroutine(&self, at: usize) -> Option<&'a Goroutine> {
        self.dump.goroutines.get(at)
    }

    fn run(mut self, signatures: &[Signature], normal: &[Pattern], known_hangs: &KnownHangs) -> Judged {
        let stacks = Stacks::of(self.dump);
        let calls: Vec<Option<&str>> = stacks
            .examples
            .iter()
            .map(|at| wait::call(self.dump.goroutines.get(*at)?).map(|call| call.rpc))
            .collect();
        self.calls = stacks.of.iter().map(|stack| calls.get(*stack).copied().flatten()).collect();
        let roles: Vec<GoroutineRole> = stacks
            .examples
            .iter()
            .map(|at| {
                self.goroutine(*at)
                    .map_or(GoroutineRole::Nobody, |goroutine| self.role(goroutine, signatures, normal))
            })
            .collect();
        self.roles = stacks
            .of
            .iter()
            .map(|stack| roles.get(*stack).copied().unwrap_or(GoroutineRole::Nobody))
            .collect();
        self.join_loops(signatures);
        self.join_stops(signatures);
        let covered = self.covered(signatures.len());
        let mut findings: Vec<Finding> = signatures
            .iter()
            .enumerate()
            .filter_map(|(nth, signature)| self.finding(nth, signature, &covered, known_hangs))
            .collect();
        findings.extend(self.unexplained(signatures, &covered, known_hangs));
        findings.extend(self.cycles());
        let confirmed: BTreeSet<usize> =
            covered.iter().enumerate().filter(|(_, by)| by.is_some()).map(|(at, _)| at).collect();
        let waiting = self.contentions.iter().map(|contention| contention.waiters.len()).sum();
        Judged { findings, waits: self.waits(&confirmed), waiting, groups: stacks.groups(self.dump) }
    }

    fn role(&self, goroutine: &Goroutine, signatures: &[Signature], normal: &[Pattern]) -> GoroutineRole {
        let moving = matches!(&*goroutine.state, "running" | "runnable" | "idle" | "dead");
        if moving || goroutine.frames.is_empty() {
            return GoroutineRole::Nobody;
        }
        let mine = |signature: &&Signature| {
            signature.daemons.is_empty()
                || self.daemon == Daemon::Unknown
                || signature.daemons.contains(&self.daemon)
        };
        let fits = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(goroutine));
        let of = |test: &dyn Fn(&Signature) -> bool| {
            signatures
                .iter()
                .enumerate()
                .find(|(_, signature)| mine(signature) && test(signature))
                .map(|(nth, _)| nth)
        };
        // A goroutine at a lock waits behind a cause, whatever its frames are.
        let waits = wait::lock(goroutine).is_some();
        if !waits && let Some(nth) = of(&|signature| fits(&signature.roots)) {
            return if is_normal(goroutine, normal) {
                GoroutineRole::Normal
            } else {
                GoroutineRole::Root(nth)
            };
        }
        if let Some(nth) = of(&|signature| fits(&signature.queue)) {
            return GoroutineRole::Queue(nth);
        }
        if is_normal(goroutine, normal) { GoroutineRole::Normal } else { GoroutineRole::Nobody }
    }

    /// If PLEG waits, a sync loop that waits too is not a separate finding, because it waits for the same runtime.
    fn join_loops(&mut self, signatures: &[Signature]) {
        let position = |id: &str| signatures.iter().position(|signature| signature.id == id);
        if let (Some(pleg), Some(sync_loop)) = (position("ST13"), position("ST14"))
            && self.roles.contains(&GoroutineRole::Root(pleg))
        {
            for role in self.roles.iter_mut().filter(|role| **role == GoroutineRole::Root(sync_loop)) {
                *role = GoroutineRole::Queue(pleg);
            }
        }
    }

    /// A stop waits behind its own loop: if that loop waits for the OCI runtime, so does the stop.
    fn join_stops(&mut self, signatures: &[Signature]) {
        let position = |id: &str| signatures.iter().position(|signature| signature.id == id);
        let (Some(oci), Some(stop)) = (position("ST06"), position(conmon::SIGNATURE)) else { return };
        let of = |at: usize| self.dump.goroutines.get(at).and_then(conmon::container);
        let held: BTreeSet<u64> =
            self.positions(GoroutineRole::Root(oci)).into_iter().filter_map(of).collect();
        let joined: Vec<usize> = self
            .positions(GoroutineRole::Root(stop))
            .into_iter()
            .filter(|at| of(*at).is_some_and(|container| held.contains(&container)))
            .collect();
        for at in joined {
            if let Some(role) = self.roles.get_mut(at) {
                *role = GoroutineRole::Queue(oci);
            }
        }
    }

    fn positions(&self, role: GoroutineRole) -> Vec<usize> {
        self.roles.iter().enumerate().filter(|(_, own)| **own == role).map(|(at, _)| at).collect()
    }

    /// For how many whole minutes a goroutine waits at least, by its own age or by that of a goroutine that it
    /// started and waits for. A wait in the kernel has no age until the next garbage collection, but the started
    /// goroutine may have one.
    fn minutes(&self, at: usize) -> Option<u32> {
        let goroutine = self.goroutine(at)?;
        let inside = goroutine.frames.get(wait::innermost_frame(goroutine)).map(|frame| &*frame.function);
        let waits_for_child =
            matches!(wait::external_wait(goroutine), Some(ExternalWait::Child(_) | ExternalWait::Pipe));
        let started_here = |maker: &str| {
            (waits_for_child && maker == "os/exec.(*Cmd).Start")
                || (self.call(at).is_some() && Some(maker) == inside)
        };
        let of_children = self.family.children(at).iter().filter_map(|child| {
            let child = self.goroutine(*child)?;
            child
                .minutes
                .filter(|_| child.created_by.as_ref().is_some_and(|maker| started_here(&maker.function)))
        });
        of_children.chain(goroutine.minutes).max()
    }

    /// For how long a goroutine waits at least, by its age and by an earlier dump.
    fn waited(&self, at: usize) -> Duration {
        let by_age = Duration::from_secs(u64::from(self.minutes(at).unwrap_or(0)) * 60);
        let both = self.stuck.as_ref().filter(|stuck| stuck.positions.contains(&at));
        by_age.max(both.map_or(Duration::ZERO, |stuck| stuck.for_at_least))
    }

    fn is_overdue(&self, at: usize) -> bool {
        let wait = self.goroutine(at).and_then(conmon::ConmonWait::of);
        wait.is_some_and(|wait| wait.is_overdue(self.waited(at)))
    }

    /// The largest number of calls that wait for the exit of one container.
    fn same_exit(&self, roots: &[usize]) -> usize {
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

    fn root_of(&self, at: usize) -> Option<usize> {
        match self.roles.get(at) {
            Some(GoroutineRole::Root(nth)) => Some(*nth),
            _ => None,
        }
    }

    /// The cause of a goroutine, or of a goroutine that works for it.
    fn cause(&self, at: usize) -> Option<usize> {
        self.root_of(at).or_else(|| self.family.children(at).iter().find_map(|child| self.root_of(*child)))
    }

    /// For each contention, the signature that explains it: by its holder, by what its holder waits for, or by its
    /// waiters.
    fn covered(&self, signatures: usize) -> Vec<Option<usize>> {
        let mut covered: Vec<Option<usize>> = self
            .contentions
            .iter()
            .map(|contention| contention.holders.iter().find_map(|holder| self.cause(*holder)))
            .collect();
        let waits_at: HashMap<usize, usize> = self
            .contentions
            .iter()
            .enumerate()
            .flat_map(|(nth, contention)| contention.waiters.iter().map(move |waiter| (*waiter, nth)))
            .collect();
        // A holder may itself wait for a lock that is explained, so repeat this as often as there are locks.
        for _ in 0..self.contentions.len().min(8) {
            let before = covered.clone();
            for (nth, contention) in self.contentions.iter().enumerate() {
                if before.get(nth).copied().flatten().is_some() {
                    continue;
                }
                let through = contention
                    .holders
                    .iter()
                    .find_map(|holder| before.get(*waits_at.get(holder)?).copied().flatten());
                if let Some(slot) = covered.get_mut(nth) {
                    *slot = through;
                }
            }
            if before == covered {
                break;
            }
        }
        // Without a holder, waiters that match the signature are enough, if its cause is in this dump.
        let mut rooted = vec![false; signatures];
        for role in &self.roles {
            if let GoroutineRole::Root(nth) = role
                && let Some(slot) = rooted.get_mut(*nth)
            {
                *slot = true;
            }
        }
        for (slot, contention) in covered.iter_mut().zip(&self.contentions) {
            if slot.is_none() && contention.holders.is_empty() {
                *slot = contention.waiters.iter().find_map(|waiter| match self.roles.get(*waiter) {
                    Some(GoroutineRole::Queue(nth)) if rooted.get(*nth) == Some(&true) => Some(*nth),
                    _ => None,
                });
            }
        }
        covered
    }

    fn finding(
        &self,
        nth: usize,
        signature: &Signature,
        covered: &[Option<usize>],
        known_hangs: &KnownHangs,
    ) -> Option<Finding> {
        let mut roots: Vec<usize> = self
            .roles
            .iter()
            .enumerate()
            .filter(|(_, role)| **role == GoroutineRole::Root(nth))
            .map(|(at, _)| at)
            .collect();
        if roots.is_empty() {
            return None;
        }
        let mine: Vec<&Contention> = self
            .contentions
            .iter()
            .zip(covered)
            .filter(|(_, by)| **by == Some(nth))
            .map(|(contention, _)| contention)
            .collect();
        // The most telling root holds the lock for which a list call waits, otherwise the lock with the most waiters,
        // otherwise it waits longest.
        let weight = |contention: &Contention| {
            let lists = |at: &usize| self.call(*at).is_some_and(|call| LISTS.contains(&call));
            (contention.waiters.iter().any(lists), contention.waiters.len())
        };
        let mut held: HashMap<usize, (bool, usize)> = HashMap::new();
        for contention in &mine {
            let weight = weight(contention);
            for holder in &contention.holders {
                for at in self.family.children(*holder).iter().chain([holder]) {
                    let most = held.entry(*at).or_default();
                    *most = (*most).max(weight);
                }
            }
        }
        roots.sort_by_cached_key(|root| {
            (Reverse(held.get(root)), Reverse(self.is_overdue(*root)), Reverse(self.minutes(*root)))
        });
        let mut waiters: BTreeSet<usize> =
            mine.iter().flat_map(|contention| contention.waiters.iter().copied()).collect();
        let linked = mine.iter().any(|contention| !contention.holders.is_empty());
        waiters.extend(
            self.roles
                .iter()
                .enumerate()
                .filter(|(at, role)| {
                    // A goroutine at a lock is explained by that lock's holder or not at all.
                    **role == GoroutineRole::Queue(nth)
                        && self.goroutine(*at).is_some_and(|goroutine| wait::lock(goroutine).is_none())
                })
                .map(|(at, _)| at),
        );
        let lock = mine
            .iter()
            .max_by_key(|contention| weight(contention))
            .map(|contention| words::lock(&contention.at).to_owned());
        Some(self.assemble(signature, &roots, &waiters, lock, linked, known_hangs))
    }

    /// The call for which a goroutine works: its own, or that of the goroutine that started it.
    fn call(&self, at: usize) -> Option<&'a str> {
        let own = self.calls.get(at).copied().flatten();
        own.or_else(|| self.calls.get(self.family.maker(at)?).copied().flatten())
    }

    fn count(&self, at: usize) -> u64 {
        self.goroutine(at).map_or(0, |goroutine| goroutine.count)
    }

    fn assemble(
        &self,
        signature: &Signature,
        roots: &[usize],
        waiters: &BTreeSet<usize>,
        lock: Option<String>,
        linked: bool,
        known_hangs: &KnownHangs,
    ) -> Finding {
        let everybody = || roots.iter().chain(waiters).copied();
        let rpcs = self.rpcs(everybody());
        let telling = roots.first().and_then(|root| self.goroutine(*root));
        let root_call = roots.first().and_then(|root| self.call(*root));
        let weighed = self.assess(signature, roots, waiters, linked, &rpcs, known_hangs);
        let (confidence, minutes) = (weighed.confidence, weighed.minutes);
        let waiting: u64 = waiters.iter().map(|at| self.count(*at)).sum();
        let target = self.target(signature, roots, root_call);
        let full_severity = match signature.severity {
            Severity::Info => Severity::Info,
            severity if linked && rpcs.iter().any(|rpc| LISTS.contains(&rpc.as_str())) => {
                severity.max(Severity::Critical)
            }
            severity => severity,
        };
        let severity = if confidence == Confidence::Possible { Severity::Info } else { full_severity };
        let compared = self.stuck.is_some();
        let next = signature.act.iter().filter(|act| !(compared && *act == TWO_DUMPS));
        let holder = telling.map(|root| Holder {
            goroutine: root.id,
            function: telling_function(root),
            waits_for: WaitsFor { kind: target.0, pid: None, path: None, state: None },
            pod: None,
            container: None,
        });
        let chain = Chain {
            dump: self.number,
            behind: self.behind(waiters),
            lock,
            root_call: words::subject(&signature.id).or(root_call).map(str::to_owned),
            root_count: roots.iter().map(|root| self.count(*root)).sum(),
            root_frames: telling.map(telling_frames).unwrap_or_default(),
            target: target.1,
            hangs: signature.hangs.clone(),
            roots: roots.to_vec(),
            severity: Some(full_severity),
            by_address: linked,
            compared,
            recorded: None,
        };
        Finding {
            id: signature.id.clone(),
            title: signature.title.clone(),
            severity,
            confidence,
            rpcs,
            waiters: waiting,
            minutes,
            holder,
            evidence: weighed.evidence,
            next: next.cloned().collect(),
            threads: self.threads(signature, roots, waiters),
            chain,
        }
    }

    /// What the first root waits for; for several shims their number.
    fn target(&self, signature: &Signature, roots: &[usize], rpc: Option<&str>) -> (WaitKind, String) {
        let Some(root) = roots.first().and_then(|root| self.goroutine(*root)) else {
            return (WaitKind::Unknown, String::new());
        };
        if signature.id == conmon::SIGNATURE
            && let Some(wait) = conmon::ConmonWait::of(root)
        {
            return (WaitKind::Process, wait.target().to_owned());
        }
        let (kind, words) = words::target(wait::external_wait(root), &signature.id, rpc);
        if kind != WaitKind::Shim || roots.len() == 1 {
            return (kind, words);
        }
        let shims: BTreeSet<u64> = roots.iter().filter_map(|at| wait::shim(self.goroutine(*at)?)).collect();
        let words = match shims.len() {
            1 => "one shim".to_owned(),
            several => words::counted(several.try_into().unwrap_or(u64::MAX), "shim"),
        };
        (kind, words)
    }

    /// Decides the confidence of a finding, with the evidence.
    fn assess(
        &self,
        signature: &Signature,
        roots: &[usize],
        waiters: &BTreeSet<usize>,
        linked: bool,
        rpcs: &[String],
        known_hangs: &KnownHangs,
    ) -> Assessment {
        let everybody = || roots.iter().chain(waiters).copied();
        // A call whose caller chooses its length is not late by its age alone, unless other goroutines wait behind
        // it.
        let chosen = |at: usize| !linked && self.call(at).is_some_and(|call| GRACEFUL.contains(&call));
        let graceful = signature.id == "ST15";
        let minutes =
            everybody().filter(|at| !(graceful && chosen(*at))).filter_map(|at| self.minutes(at)).max();
        let stuck = |at: &usize| self.stuck.as_ref().is_some_and(|stuck| stuck.positions.contains(at));
        let telling = |at: &usize| linked || self.call(*at) != Some(WRITES_LONG);
        let both = everybody().filter(|at| stuck(at) && telling(at)).count();
        let measured: Vec<&str> =
            rpcs.iter().filter(|rpc| known_hangs.hanging.contains(*rpc)).map(String::as_str).collect();
        let loops = self.loops(signature, roots, waiters);
        let mut evidence = Vec::new();
        let first = roots.first().and_then(|root| self.goroutine(*root));
        evidence.extend(first.map(where_it_is));
        evidence.extend(first.and_then(wait::shim_call).map(|rpc| format!("it waits for {rpc} over ttrpc")));
        let same_exit = self.same_exit(roots);
        if signature.id == conmon::SIGNATURE {
            evidence.extend(first.and_then(conmon::ConmonWait::of).and_then(conmon::ConmonWait::words));
            if same_exit >= SAME_EXIT {
                evidence.push(format!("{same_exit} calls wait for the exit of one container"));
            }
        }
        if linked {
            let waiting = waiters.iter().map(|at| self.count(*at)).sum();
            evidence.push(format!("{} behind it, by address", words::counted(waiting, "goroutine")));
        }
        evidence.extend(minutes.map(|minutes| format!("waits for at least {minutes} min")));
        if both > 0 {
            let both = both.try_into().unwrap_or(u64::MAX);
            evidence.push(format!("{} in both dumps", words::counted(both, "goroutine")));
        }
        if !measured.is_empty() {
            evidence.push(format!("measured to hang: {}", measured.join(", ")));
        }
        if loops >= LOOPS {
            evidence.push(format!("{loops} loops of the kubelet wait for the runtime at once"));
        }
        let late = minutes.is_some_and(|minutes| minutes >= signature.patience_minutes);
        let lasting = if signature.id == conmon::SIGNATURE {
            same_exit >= SAME_EXIT || roots.iter().any(|at| self.is_overdue(*at))
        } else {
            late || (both > 0 && signature.patience_minutes <= 1)
        };
        let confidence = match () {
            () if !measured.is_empty() || (lasting && linked) => Confidence::Certain,
            () if lasting || loops >= LOOPS => Confidence::Likely,
            () => Confidence::Possible,
        };
        Assessment { confidence, minutes, evidence }
    }

    /// How many of the kubelet's loops wait for the runtime: PLEG's loop and others that did not start waiting
    /// together.
    fn loops(&self, signature: &Signature, roots: &[usize], waiters: &BTreeSet<usize>) -> usize {
        if signature.id != "ST13" {
            return 0;
        }
        let same = roots.first().and_then(|root| self.call(*root));
        roots.iter().chain(waiters).filter(|at| self.call(**at) == same).count()
    }

    fn rpcs(&self, everybody: impl Iterator<Item = usize>) -> Vec<String> {
        let mut by_call: BTreeMap<&str, u64> = BTreeMap::new();
        for at in everybody {
            if let Some(call) = self.call(at) {
                *by_call.entry(call).or_default() += self.count(at);
            }
        }
        let mut calls: Vec<(&str, u64)> = by_call.into_iter().collect();
        calls.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
        calls.into_iter().map(|(call, _)| call.to_owned()).collect()
    }

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
        behind.sort_unstable_by(|one, other| {
            other.count.cmp(&one.count).then_with(|| (&one.call, &one.at).cmp(&(&other.call, &other.at)))
        });
        behind
    }

    fn threads(&self, signature: &Signature, roots: &[usize], waiters: &BTreeSet<usize>) -> Vec<String> {
        let mut threads = signature.threads.clone();
        // A few roots and waiters represent all.
        let some: Vec<&Goroutine> =
            roots.iter().take(8).chain(waiters.iter().take(8)).filter_map(|at| self.goroutine(*at)).collect();
        for (frames, thread) in THREADS {
            let known = threads.iter().any(|known| known == thread);
            if !known && some.iter().any(|goroutine| Pattern::new(frames).matches(goroutine)) {
                threads.push((*thread).to_owned());
            }
        }
        threads
    }

    /// Findings for locks with several waiters that no signature explains.
    fn unexplained(
        &self,
        signatures: &[Signature],
        covered: &[Option<usize>],
        known_hangs: &KnownHangs,
    ) -> Vec<Finding> {
        let lock = signatures.iter().find(|signature| signature.id == LOCK);
        let Some(lock) = lock.cloned().or_else(super::signatures::lock) else { return Vec::new() };
        let mut found = Vec::new();
        for (contention, by) in self.contentions.iter().zip(covered) {
            let waiting: u64 = contention.waiters.iter().map(|at| self.count(*at)).sum();
            if by.is_some() || waiting < 2 {
                continue;
            }
            let waiters = contention.waiters.iter().copied().collect();
            let words = words::lock(&contention.at);
            let mut finding = self.assemble(
                &lock,
                &contention.holders,
                &waiters,
                Some(words.to_owned()),
                !contention.holders.is_empty(),
                known_hangs,
            );
            // Addresses alone allow no more than likely.
            if finding.confidence == Confidence::Certain {
                finding.confidence = Confidence::Likely;
            }
            if contention.holders.len() > 1 {
                finding.evidence.push(format!("{} candidates for the holder", contention.holders.len()));
            }
            finding
                .evidence
                .extend(contention.reason.map(|reason| format!("the candidate is {}", reason.words())));
            found.push(finding);
        }
        found.sort_by_key(|finding| Reverse(finding.waiters));
        found
    }

    /// Findings for cycles of waiters.
    fn cycles(&self) -> Vec<Finding> {
        let Some(lock) = super::signatures::lock() else { return Vec::new() };
        let mut found = Vec::new();
        for cycle in holders::cycles(&self.contentions) {
            let waiters: BTreeSet<usize> = cycle.iter().copied().collect();
            let mut finding = self.assemble(&lock, &cycle, &waiters, None, false, &KnownHangs::default());
            let ids: Vec<String> =
                cycle.iter().filter_map(|at| self.goroutine(*at)?.id).map(|id| id.to_string()).collect();
            "goroutines wait for each other in a circle".clone_into(&mut finding.title);
            finding.evidence = vec![format!(
                "{}, which waits for the first: a deadlock, if the candidates are the holders",
                ids.join(" waits for ")
            )];
            "each other".clone_into(&mut finding.chain.target);
            finding.chain.behind.clear();
            found.push(finding);
        }
        found
    }

    fn waits(&self, confirmed: &BTreeSet<usize>) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (nth, contention) in self.contentions.iter().enumerate() {
            let ids = |positions: &[usize]| -> Vec<u64> {
                positions.iter().take(LISTED_IDS).filter_map(|at| self.goroutine(*at)?.id).collect()
            };
            let confidence = match (contention.reason, contention.holders.len()) {
                (Some(_), _) if confirmed.contains(&nth) => Confidence::Certain,
                (Some(Reason::SameObject(_) | Reason::Embeds), 1) => Confidence::Likely,
                _ => Confidence::Possible,
            };
            let holders = ids(&contention.holders);
            for at in &contention.waiters {
                if waits.len() == LISTED {
                    return waits;
                }
                let Some(goroutine) = self.goroutine(*at) else { continue };
                let Some(lock) = wait::lock(goroutine) else { continue };
                let at_frame = goroutine.frames.get(lock.owner);
                // Only readers wait behind writers.
                let pending: &[usize] = if lock.kind == LockKind::Read { &contention.writers } else { &[] };
                waits.push(Wait {
                    dump: None,
                    goroutine: goroutine.id,
                    call: self.call(*at).map(str::to_owned),
                    lock: lock.kind.as_str(),
                    at: at_frame.map_or_else(String::new, |frame| frame.function.to_string()),
                    minutes: goroutine.minutes,
                    holders: holders.clone(),
                    why: contention.reason.map(Reason::words),
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
    minutes: Option<u32>,
    evidence: Vec<String>,
}

fn where_it_is(root: &Goroutine) -> String {
    let who = root.id.map_or_else(|| words::counted(root.count, "goroutine"), |id| format!("goroutine {id}"));
    let state = if root.state.is_empty() { String::new() } else { format!(" [{}]", root.state) };
    format!("{who}{state} is in {}", telling_function(root))
}

/// The most telling frame: the innermost one outside of libraries.
fn telling_function(root: &Goroutine) -> String {
    telling_frames(root).into_iter().next().unwrap_or_default()
}

/// Libraries that every call passes through and that therefore do not identify a place.
const LIBRARIES: &[&str] = &[
    "google.golang.org/grpc",
    "github.com/containerd/ttrpc.",
    "reaper.(*Monitor).Wait",
    "go-runc.cmdOutput",
    "go-runc.(*Runc).cmdOutput",
    "go-runc.(*Runc).runOrError",
    "os/exec.(*Cmd)",
    "os.(*Process)",
    "os.(*File)",
    "os.Mkdir",
    "github.com/grpc-ecosystem/",
    "go.opentelemetry.io/",
    "k8s.io/apimachinery/pkg/util/wait.",
    "internal/poll.",
    "internal/syscall/",
    "os.ignoringEINTR",
    "syscall.",
    "bufio.",
    "net/http.send",
    "/instrument.(*instrumentedService)",
    "/interceptors.",
    "otelttrpc.",
];

/// A root's frames without libraries, innermost first, down to the call's handler.
fn telling_frames(root: &Goroutine) -> Vec<String> {
    let frames = root.frames.get(wait::innermost_frame(root)..).unwrap_or_default();
    let mut shown = Vec::new();
    for frame in frames {
        let function = &*frame.function;
        if LIBRARIES.iter().any(|library| function.contains(library)) || frame.short().starts_with("os.") {
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

/// The equal stacks of a dump.
struct Stacks {
    /// For each goroutine, its stack.
    of: Vec<usize>,
    /// For each stack, one goroutine that has it.
    examples: Vec<usize>,
}

impl Stacks {
    fn of(dump: &Dump) -> Self {
        let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut stacks = Self { of: Vec::with_capacity(dump.goroutines.len()), examples: Vec::new() };
        for (at, goroutine) in dump.goroutines.iter().enumerate() {
            // Frames share their names, so the addresses of the names identify a stack.
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

    fn groups(&self, dump: &Dump) -> Vec<StackGroup> {
        let mut groups: Vec<StackGroup> = self
            .examples
            .iter()
            .filter_map(|at| dump.goroutines.get(*at))
            .map(|goroutine| StackGroup {
                count: 0,
                state: goroutine.state.to_string(),
                minutes: None,
                frames: goroutine
                    .frames
                    .iter()
                    .take(SHOWN_FRAMES)
                    .map(|frame| short(&frame.function).to_owned())
                    .collect(),
            })
            .collect();
        for (goroutine, stack) in dump.goroutines.iter().zip(&self.of) {
            if let Some(group) = groups.get_mut(*stack) {
                group.count += goroutine.count;
                group.minutes = group.minutes.max(goroutine.minutes);
            }
        }
        groups
    }
}
