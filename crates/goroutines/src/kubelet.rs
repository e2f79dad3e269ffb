//! What dumps of a kubelet show of its calls to the runtime: the call of PLEG's relist, the calls of pod workers, and the
//! calls of its other loops.
//!
//! A dump contains no names. It contains the lengths of the strings that a function gets, so a call for a pod shows how
//! long the pod's UID, name and namespace are. Addresses that are the same in two dumps show that it is the same call.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::daemon::{Daemon, identify};
use super::dump::{ArgumentToken, Dump, Frame, Goroutine};
use super::judge::{is_same_dump, is_same_wait};
use super::wait::{ID_LENGTH, cri_call, string};
use super::wait_time::WaitTime;
use plegctl_base::report::word_enum;

/// The lengths of a pod's UID: of a static pod (an MD5 sum), and of a pod of the API server.
const UID_LENGTHS: [u64; 2] = [32, 36];

/// The longest name of a pod (a DNS subdomain), and the longest name of a namespace or a container (a DNS label).
const LONGEST_NAME: u64 = 253;
const LONGEST_LABEL: u64 = 63;

/// The calls of a kubelet to its runtime, from its last dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletCalls {
    /// Whether an earlier dump of the same process was compared, and the time between the two.
    pub compared: Option<Duration>,
    /// What the goroutine of PLEG's relist does.
    pub relist: RelistState,
    /// The pod workers that wait for a call.
    pub workers: Vec<WaitingWorker>,
    /// For each call, the number of goroutines that wait for it, those of the relist and of pod workers included.
    pub waiting: BTreeMap<String, usize>,
}

impl KubeletCalls {
    /// Whether the kubelet waits for `Version`, which a runtime answers without any lock: so it answers no call at all.
    pub fn is_silent_runtime(&self) -> bool {
        self.waiting.contains_key("Version")
    }
}

/// What the goroutine of PLEG's relist does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RelistState {
    /// It is between two relists, or the dump does not show it.
    #[default]
    NotRelisting,
    /// It waits for an answer of the runtime.
    Waits(WaitingCall),
    /// It relists, and waits for no call.
    Elsewhere,
}

impl RelistState {
    /// Returns the call for which the relist waits.
    pub const fn call(&self) -> Option<&WaitingCall> {
        match self {
            Self::Waits(call) => Some(call),
            Self::NotRelisting | Self::Elsewhere => None,
        }
    }
}

/// A call for whose answer a goroutine waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// The call.
    pub rpc: String,
    /// The goroutine's id.
    pub goroutine: Option<u64>,
    /// How long it has waited.
    pub waited: WaitTime,
    /// Whether the earlier dump shows the same call: the same goroutine with the same functions and arguments.
    pub is_in_both: bool,
    /// What the arguments show of the pod.
    pub pod: PodShape,
}

/// A pod worker that waits for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingWorker {
    /// The call.
    pub call: WaitingCall,
    /// What the worker does with its pod.
    pub task: WorkerTask,
}

word_enum! {
    /// What a pod worker does with its pod.
    pub enum WorkerTask: as_str {
        /// It starts the pod, or keeps it running.
        Sync = "starts or updates",
        /// It ends the pod's containers.
        Terminate = "ends",
        /// It cleans up after the pod.
        CleanUp = "cleans up after",
    }
}

/// What the arguments of a call show of its pod. What they do not show is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodShape {
    /// The address of the UID. Two workers have different addresses, and one worker has the same in two dumps.
    pub uid_address: Option<u64>,
    /// The length of the pod's UID.
    pub uid: Option<u64>,
    /// The length of the pod's name.
    pub name: Option<u64>,
    /// The length of the namespace's name.
    pub namespace: Option<u64>,
    /// The length of the container's name.
    pub container: Option<u64>,
}

impl PodShape {
    /// Returns whether a pod with these names may be the pod of the call.
    pub fn fits(&self, uid: &str, namespace: &str, name: &str) -> bool {
        let fits = |length: Option<u64>, text: &str| {
            length.is_none_or(|length| u64::try_from(text.len()).is_ok_and(|own| own == length))
        };
        fits(self.uid, uid) && fits(self.namespace, namespace) && fits(self.name, name)
    }

    /// Whether the arguments show the lengths of the names, and not only that of the UID.
    pub const fn has_names(&self) -> bool {
        self.name.is_some() && self.namespace.is_some()
    }

    /// Collects what the frames of a goroutine show.
    fn of(goroutine: &Goroutine) -> Self {
        let mut shape = Self::default();
        for frame in &goroutine.frames {
            shape.add(frame);
        }
        shape
    }

    fn add(&mut self, frame: &Frame) {
        let strings = strings(&frame.arguments);
        for window in strings.windows(3) {
            if let [(_, uid), (_, name), (_, namespace)] = window
                && UID_LENGTHS.contains(uid)
                && (1..=LONGEST_NAME).contains(name)
                && (1..=LONGEST_LABEL).contains(namespace)
            {
                self.uid = self.uid.or(Some(*uid));
                self.name = self.name.or(Some(*name));
                self.namespace = self.namespace.or(Some(*namespace));
            }
        }
        if frame.function.ends_with(").killContainer") {
            let mut after_id = strings.iter().skip_while(|(_, length)| *length != ID_LENGTH).skip(1);
            let container = after_id.next().map(|(_, length)| *length);
            self.container = container.filter(|length| (1..=LONGEST_LABEL).contains(length));
        }
        if is_worker_loop(frame) || has_uid_of_pleg(frame) {
            let uid = strings.iter().rfind(|(_, length)| UID_LENGTHS.contains(length));
            self.uid = uid.map(|(_, length)| *length).or(self.uid);
            self.uid_address = uid.map(|(address, _)| *address).or(self.uid_address);
        }
    }

    /// Adds what another goroutine of the same pod shows.
    fn or(self, other: Self) -> Self {
        Self {
            uid_address: self.uid_address.or(other.uid_address),
            uid: self.uid.or(other.uid),
            name: self.name.or(other.name),
            namespace: self.namespace.or(other.namespace),
            container: self.container.or(other.container),
        }
    }
}

/// Returns the string arguments of a frame, each as its address and its length, that are certain.
fn strings(arguments: &[ArgumentToken]) -> Vec<(u64, u64)> {
    let starts = (0..arguments.len()).filter_map(|start| arguments.get(start..));
    starts.filter_map(|tokens| string(tokens).map(|(string, _)| string)).collect()
}

/// Whether a frame is the loop of a pod worker: `managePodLoop` up to Kubernetes 1.26, `podWorkerLoop` since.
fn is_worker_loop(frame: &Frame) -> bool {
    [".(*podWorkers).podWorkerLoop", ".(*podWorkers).managePodLoop"]
        .iter()
        .any(|name| frame.function.ends_with(name))
}

/// Whether a frame is PLEG's relist of all pods or of one pod: `relist` up to Kubernetes 1.26, `Relist` and `relistPod` since.
fn is_relist(frame: &Frame) -> bool {
    [".(*GenericPLEG).Relist", ".(*GenericPLEG).relist", ".(*GenericPLEG).relistPod"]
        .iter()
        .any(|name| frame.function.ends_with(name))
}

/// Whether a frame is a function of PLEG that gets the UID of a pod.
fn has_uid_of_pleg(frame: &Frame) -> bool {
    [".(*GenericPLEG).updateCache", ".(*GenericPLEG).reconcilePodRecord", ".(*GenericPLEG).relistPod"]
        .iter()
        .any(|name| frame.function.ends_with(name))
}

impl WorkerTask {
    /// Returns the task of a worker's goroutine; `None` if it is none.
    fn of(goroutine: &Goroutine) -> Option<Self> {
        goroutine.frames.iter().find(|frame| is_worker_loop(frame))?;
        let has = |names: [&str; 2]| {
            let mut frames = goroutine.frames.iter();
            frames.any(|frame| names.iter().any(|name| frame.function.ends_with(name)))
        };
        Some(match () {
            () if has(["(*Kubelet).SyncTerminatedPod", "(*Kubelet).syncTerminatedPod"]) => Self::CleanUp,
            () if has(["(*Kubelet).SyncTerminatingPod", "(*Kubelet).syncTerminatingPod"]) => Self::Terminate,
            () if has(["(*Kubelet).SyncTerminatingRuntimePod", "(*Kubelet).syncTerminatingRuntimePod"]) => {
                Self::Terminate
            }
            () => Self::Sync,
        })
    }
}

/// Reads the calls from the last of one or two dumps of a kubelet. `between` is the time between the two. Returns `None` if
/// the last dump is not of a kubelet, or is a profile without ids and arguments.
pub fn kubelet_calls(dumps: &[&Dump], between: Duration) -> Option<KubeletCalls> {
    let (last, earlier) = dumps.split_last()?;
    let has_ids = last.goroutines.iter().any(|goroutine| goroutine.id.is_some());
    if identify(last).daemon != Daemon::Kubelet || !has_ids {
        return None;
    }
    let earlier = earlier.last().filter(|earlier| !is_same_dump(earlier, last)).map(|dump| by_id(dump));
    let earlier = earlier.filter(|earlier| is_same_process(earlier, last));
    let reader = CallReader { earlier: earlier.as_ref(), between };
    let mut calls = KubeletCalls { compared: earlier.as_ref().map(|_| between), ..KubeletCalls::default() };
    let by_id = by_id(last);
    for goroutine in &last.goroutines {
        reader.add(goroutine, &by_id, &mut calls);
    }
    Some(calls)
}

/// Returns a dump without the goroutines that [`kubelet_calls`] does not need. A large kubelet has very many.
pub fn without_others(mut dump: Dump) -> Dump {
    dump.goroutines.retain(|goroutine| {
        goroutine.id.is_some_and(|id| id < FIRST_GOROUTINES)
            || goroutine.frames.iter().any(|frame| is_relist(frame) || is_worker_loop(frame))
            || cri_call(goroutine).is_some()
    });
    dump
}

fn by_id(dump: &Dump) -> HashMap<u64, &Goroutine> {
    dump.goroutines.iter().filter_map(|goroutine| Some((goroutine.id?, goroutine))).collect()
}

/// The goroutines that a kubelet starts first and that never end.
const FIRST_GOROUTINES: u64 = 500;

/// Whether two dumps are of one process: of the first goroutines that are in both, most have the same creator.
fn is_same_process(earlier: &HashMap<u64, &Goroutine>, last: &Dump) -> bool {
    let creator = |goroutine: &Goroutine| goroutine.created_by.as_ref().map(|by| by.function.clone());
    let first =
        last.goroutines.iter().filter(|goroutine| goroutine.id.is_some_and(|id| id < FIRST_GOROUTINES));
    let pairs = first.filter_map(|goroutine| Some((goroutine, *earlier.get(&goroutine.id?)?)));
    let (same, other): (Vec<_>, Vec<_>) = pairs.partition(|(one, other)| creator(one) == creator(other));
    same.len() > 2 * other.len()
}

/// Reads the calls of the goroutines of one dump.
struct CallReader<'a> {
    /// The goroutines of the earlier dump.
    earlier: Option<&'a HashMap<u64, &'a Goroutine>>,
    between: Duration,
}

impl CallReader<'_> {
    fn add(&self, goroutine: &Goroutine, by_id: &HashMap<u64, &Goroutine>, calls: &mut KubeletCalls) {
        let relists = goroutine.frames.iter().any(is_relist);
        let Some(call) = self.call(goroutine) else {
            if relists {
                calls.relist = RelistState::Elsewhere;
            }
            return;
        };
        *calls.waiting.entry(call.rpc.clone()).or_default() += 1;
        if relists {
            calls.relist = RelistState::Waits(call);
            return;
        }
        // A worker that ends several containers starts a goroutine for each, and waits for them.
        let creator = || {
            let by = goroutine.created_by.as_ref()?;
            by.function.contains("killContainers").then_some(())?;
            by_id.get(&by.goroutine?).copied()
        };
        let worker = Some(goroutine).filter(|own| WorkerTask::of(own).is_some()).or_else(creator);
        if let Some((task, worker)) = worker.and_then(|worker| Some((WorkerTask::of(worker)?, worker))) {
            let pod = call.pod.or(PodShape::of(worker));
            calls.workers.push(WaitingWorker { call: WaitingCall { pod, ..call }, task });
        }
    }

    /// Returns the call of the kubelet for whose answer a goroutine waits.
    fn call(&self, goroutine: &Goroutine) -> Option<WaitingCall> {
        if matches!(&*goroutine.state, "running" | "runnable") {
            return None;
        }
        let rpc = cri_call(goroutine)?.rpc.to_owned();
        let earlier = goroutine.id.and_then(|id| self.earlier?.get(&id).copied());
        let is_in_both = earlier.is_some_and(|earlier| is_same_wait(earlier, goroutine));
        let measured = is_in_both.then_some(self.between);
        let waited = WaitTime::of(goroutine.minutes, measured, None);
        Some(WaitingCall { rpc, goroutine: goroutine.id, waited, is_in_both, pod: PodShape::of(goroutine) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use super::super::read::{Bounds, read};
    use super::*;

    const APART: Duration = Duration::from_secs(5);

    fn parsed(text: &str) -> Dump {
        read(text.as_bytes(), Bounds::default()).unwrap().dumps.remove(0)
    }

    fn recorded(name: &str) -> Dump {
        let file = format!("../../tests/recordings/stacks/k2-{name}.kubelet.debug2.gz");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let dump = read(File::open(path).unwrap(), Bounds::default()).unwrap().dumps.remove(0);
        without_others(dump)
    }

    fn calls(earlier: &str, last: &str) -> KubeletCalls {
        kubelet_calls(&[&recorded(earlier), &recorded(last)], APART).unwrap()
    }

    /// Returns the calls of the workers, with what the arguments show: the lengths of UID, namespace, name and container.
    fn workers(calls: &KubeletCalls) -> Vec<(&str, &str, bool, [Option<u64>; 4])> {
        let shape = |pod: &PodShape| [pod.uid, pod.namespace, pod.name, pod.container];
        let row = |worker: &WaitingWorker| shape(&worker.call.pod);
        calls
            .workers
            .iter()
            .map(|worker| (&*worker.call.rpc, worker.task.as_str(), worker.call.is_in_both, row(worker)))
            .collect()
    }

    #[test]
    fn relist_that_waits_in_both_dumps_has_one_call() {
        let calls = calls("lock.t35", "lock.t100");
        let call = calls.relist.call().unwrap();
        assert_eq!(
            (call.rpc.as_str(), call.is_in_both, call.waited.at_least),
            ("ListContainers", true, APART)
        );
        assert_eq!((calls.waiting["ListContainers"], calls.workers.len()), (5, 0));
    }

    #[test]
    fn call_that_the_kubelet_has_repeated_is_another_call() {
        let calls = calls("lock.t100", "lock.t170");
        assert_eq!(
            calls.relist.call().map(|call| (&*call.rpc, call.is_in_both)),
            Some(("ListContainers", false))
        );
        assert_eq!(calls.compared, Some(APART));
    }

    #[test]
    fn arguments_of_a_pod_worker_have_the_lengths_of_its_names() {
        let [run, stop] = [("RunPodSandbox", "starts or updates"), ("StopContainer", "ends")];
        let (uid, default) = (Some(32), Some("default".len() as u64));
        assert_eq!(
            workers(&calls("bolt.t8", "bolt.t80")),
            [
                (run.0, run.1, true, [uid, None, None, None]),
                (
                    stop.0,
                    stop.1,
                    true,
                    [uid, default, Some("pod-c-n1".len() as u64), Some("ctr".len() as u64)]
                ),
            ]
        );
        let cni = calls("cni.t8", "cni.t80");
        let stop = ("StopPodSandbox", "ends", true, [uid, default, Some("pod-net-n1".len() as u64), None]);
        assert_eq!(workers(&cni), [(run.0, run.1, true, [uid, None, None, None]), stop]);
        let [one, other] = [0, 1].map(|at: usize| cni.workers[at].call.pod.uid_address);
        assert!(one.is_some() && one != other, "each worker has the address of its own UID");
        assert_eq!(cni.relist, RelistState::NotRelisting);
    }

    #[test]
    fn healthy_kubelet_waits_for_no_call_twice() {
        for (earlier, last) in
            [("base.t3-busy", "base.t5-busy"), ("base.t0-idle", "base.t140-idle-hanging-exec-probe")]
        {
            let calls = calls(earlier, last);
            assert_eq!(
                (calls.relist.call(), calls.workers.iter().any(|worker| worker.call.is_in_both)),
                (None, false)
            );
        }
    }

    #[test]
    fn one_dump_twice_or_of_another_process_is_not_compared() {
        for (earlier, last) in [("lock.t100", "lock.t100"), ("cni.t80", "lock.t100")] {
            let calls = calls(earlier, last);
            assert_eq!((calls.compared, calls.relist.call().unwrap().is_in_both), (None, false), "{earlier}");
        }
    }

    #[test]
    fn dump_of_another_program_and_a_profile_show_no_calls() {
        let other =
            parsed("goroutine 1 [select]:\nx/v1.(*runtimeServiceClient).ListContainers(0x1)\n\t/a.go:1\n");
        assert_eq!(kubelet_calls(&[&other], APART), None);
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/recordings/stacks/k2-lock.t100.kubelet.debug1.gz"
        );
        let file = File::open(path).unwrap();
        let profile = read(file, Bounds::default()).unwrap().dumps.remove(0);
        assert_eq!(kubelet_calls(&[&profile], APART), None);
    }

    #[test]
    fn status_call_of_a_relist_shows_the_pods_uid_and_a_streamed_list_its_name() {
        let dump = parsed(
            "goroutine 9 [select, 4 minutes]:\n\
             k8s.io/cri-api/pkg/apis/runtime/v1.(*runtimeServiceClient).ContainerStatus(0xc01, {0x1, 0x2}, 0x3)\n\t/a.go:1\n\
             k8s.io/kubernetes/pkg/kubelet/kuberuntime.(*kubeGenericRuntimeManager).GetPodStatus(0xc05, {0x1, 0x2}, {0xc0a, 0x24}, {0xc0b, 0x5}, {0xc0c, 0x4})\n\t/a.go:2\n\
             k8s.io/kubernetes/pkg/kubelet/pleg.(*GenericPLEG).updateCache(0xc08, {0x1, 0x2}, 0xc09, {0xc0a, 0x24})\n\t/a.go:3\n\
             k8s.io/kubernetes/pkg/kubelet/pleg.(*GenericPLEG).Relist(0xc08)\n\t/a.go:4\n\n\
             goroutine 10 [select]:\n\
             google.golang.org/grpc.(*clientStream).RecvMsg(0xc0)\n\t/b.go:1\n\
             k8s.io/cri-client/pkg.(*remoteRuntimeService).streamContainersV1(0xc0, {0x1, 0x2}, 0x3)\n\t/b.go:2\n\
             k8s.io/kubernetes/pkg/kubelet.(*Kubelet).HandlePodCleanups(0xc0)\n\t/b.go:3\n",
        );
        let calls = kubelet_calls(&[&dump], APART).unwrap();
        let call = calls.relist.call().unwrap();
        assert_eq!((call.rpc.as_str(), call.waited.at_least), ("ContainerStatus", Duration::from_secs(120)));
        let uid = "0b5b5b5b-1111-2222-3333-444444444444";
        assert!(call.pod.has_names() && call.pod.fits(uid, "shop", "web-0"), "{call:?}");
        assert!(!call.pod.fits(uid, "shop", "web-10") && !call.pod.fits("f00", "shop", "web-0"));
        assert_eq!(calls.waiting["StreamContainers"], 1);
    }
}
