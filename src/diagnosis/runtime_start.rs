//! Reads what may keep a runtime from starting or from serving the CRI: faults in containerd's configuration, and
//! used-up inotify instances of root. Rule D06 uses it.

use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{HealthRun, offload};
use crate::clock::Wall;
use crate::cri::Error;
use crate::diagnosis::evidence::Evidence;
use crate::host::{self, ContainerdConfig, HostRoot, InotifyUse, containerd_config_path};
use crate::report::Rename;

/// What may keep the runtime from starting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeStart {
    /// containerd's configuration, if the runtime is containerd and its file is known.
    pub config: Option<ContainerdConfig>,
    /// Whether the file was written after the daemon started, so that the daemon has not read it.
    pub config_is_newer: bool,
    /// The inotify instances of root.
    pub inotify: Option<InotifyUse>,
}

/// Reads the node. Returns nothing for a simulated node, a capture, or a run without a process table.
pub(super) async fn read<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> RuntimeStart {
    let inputs = run.inputs;
    let (Some(proc), None, false) = (inputs.proc.clone(), &inputs.simulated_processes, inputs.is_recorded())
    else {
        return RuntimeStart::default();
    };
    let sample = evidence.host.as_ref().map(|host| &host.first);
    let socket = inputs.socket.as_deref().and_then(|socket| socket.to_str());
    let path = socket.and_then(|socket| containerd_config_path(sample, socket));
    let daemon = sample.and_then(|sample| sample.processes.get(&sample.socket_owner?));
    let started = daemon.map(|daemon| inputs.clock.wall().nanos() - nanos(daemon.age));
    let host = HostRoot::resolve(Some(&inputs.host_root));
    // Without a free inotify instance of root, containerd does not load its CRI plugin and answers `Unimplemented`.
    // plegctl counts the instances only after this answer.
    let is_unserved = matches!(
        evidence.runtime.version.as_ref().map(|call| &call.result),
        Some(Err(Error::Unimplemented { .. }))
    );
    let work = move || {
        let config = path.and_then(|path| ContainerdConfig::read(&path, &host));
        let written = config.as_ref().and_then(|config| config.written);
        let written = written.and_then(|written| Some(nanos(written.duration_since(UNIX_EPOCH).ok()?)));
        RuntimeStart {
            config_is_newer: written.zip(started).is_some_and(|(written, started)| written > started),
            config,
            inotify: if is_unserved { InotifyUse::count(&proc, None) } else { None },
        }
    };
    offload::value(offload::FILES_TIME_LIMIT, work).await.unwrap_or_default()
}

/// Returns the directory in which the runtime looks for the configuration of network plugins, if its settings name one.
pub(super) async fn cni_directory<R>(run: HealthRun<'_, R>, evidence: &Evidence) -> Option<String> {
    let inputs = run.inputs;
    if inputs.simulated_processes.is_some() || inputs.is_recorded() {
        return None;
    }
    let sample = evidence.host.as_ref()?.first.clone();
    let socket = inputs.socket.as_deref()?.to_str()?.to_owned();
    let host = HostRoot::resolve(Some(&inputs.host_root));
    let work = move || host::cni_directory(&sample, &socket, &host);
    offload::value(offload::FILES_TIME_LIMIT, work).await.flatten()
}

/// Converts a duration to nanoseconds, as in [`Wall::nanos`].
fn nanos(duration: std::time::Duration) -> i64 {
    Wall::from_nanos(0).plus(duration).nanos()
}
