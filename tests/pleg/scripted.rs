//! A runtime in memory for the tests of the PLEG engine: a test sets its answers, and it records the calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plegctl_engine::clock::ManualClock;
use plegctl_engine::cri::{
    Call, CgroupDriver, Code, Container, ContainerState, ContainerStatus, Error, EventStream, Filter, Image,
    Network, Rpc, Runtime, RuntimeStatus, Sandbox, SandboxState, SandboxStatus, SandboxStatusAnswer, Version,
    label,
};

/// A fault of a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The call fails with this status code.
    Code(Code),
    /// The answer has no status.
    Nil,
    /// The call never ends.
    Hang,
    /// The call times out after this time, which passes on this clock.
    TimesOut(Arc<ManualClock>, Duration),
}

/// The answers of the runtime, and the calls so far.
#[derive(Debug, Default)]
pub struct State {
    pub sandboxes: Vec<Sandbox>,
    pub containers: Vec<Container>,
    /// Exit codes by container id.
    pub exit_codes: HashMap<String, i32>,
    /// Networks by sandbox id.
    pub networks: HashMap<String, Network>,
    /// The `timestamp` of the status answer by sandbox id, with the statuses of its containers.
    pub timestamps: HashMap<String, i64>,
    /// Faults by RPC name or by id.
    pub faults: HashMap<String, Fault>,
    /// The calls as `(rpc, id or filter)`, in order.
    pub calls: Vec<(String, String)>,
}

/// The runtime.
#[derive(Debug, Default)]
pub struct Scripted(pub Mutex<State>);

impl Scripted {
    pub fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap());
    }

    /// Returns the calls since the last time.
    pub fn calls(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.0.lock().unwrap().calls)
    }

    /// Records the call and answers it: with the fault of the first key that has one, otherwise with `good`.
    async fn answer<T>(
        &self,
        rpc: Rpc,
        id: &str,
        keys: &[&str],
        good: impl FnOnce(&State) -> Result<T, Code>,
        nil: impl FnOnce() -> Option<T>,
    ) -> Call<T> {
        let fault = {
            let mut state = self.0.lock().unwrap();
            state.calls.push((rpc.name().to_owned(), id.to_owned()));
            keys.iter().find_map(|key| state.faults.get(*key).cloned())
        };
        let scripted = |code| Error::Runtime { rpc, code, message: "scripted".into() };
        let result = match fault {
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::TimesOut(clock, waited)) => {
                clock.advance(waited);
                Err(Error::Silent { rpc, waited })
            }
            Some(Fault::Code(code)) => Err(scripted(code)),
            Some(Fault::Nil) => Ok(nil().expect("a list cannot be nil")),
            None => good(&self.0.lock().unwrap()).map_err(scripted),
        };
        Call { rpc, duration: Duration::from_millis(1), response_bytes: 1, stream: None, result }
    }
}

fn matches(labels: &plegctl_engine::cri::Labels, wanted: &[(String, String)]) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn filter_text<S>(filter: &Filter<S>) -> String {
    let pairs: Vec<String> = filter.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

pub fn status_of(container: &Container, exit_code: i32) -> ContainerStatus {
    ContainerStatus {
        id: container.id.clone(),
        metadata: container.metadata.clone(),
        state: container.state,
        created_at: container.created_at,
        exit_code,
        image: container.image.clone(),
        image_ref: container.image_ref.clone(),
        labels: container.labels.clone(),
        annotations: container.annotations.clone(),
        ..ContainerStatus::default()
    }
}

pub fn sandbox_status_of(sandbox: &Sandbox, network: Option<Network>) -> SandboxStatus {
    SandboxStatus {
        id: sandbox.id.clone(),
        metadata: sandbox.metadata.clone(),
        state: sandbox.state,
        created_at: sandbox.created_at,
        network,
        host_network: None,
        labels: sandbox.labels.clone(),
        annotations: sandbox.annotations.clone(),
    }
}

impl Runtime for Scripted {
    async fn version(&self) -> Call<Version> {
        self.answer(Rpc::Version, "", &["Version"], |_| Ok(Version::default()), || None).await
    }

    async fn status(&self) -> Call<RuntimeStatus> {
        self.answer(Rpc::Status, "", &["Status"], |_| Ok(RuntimeStatus::default()), || None).await
    }

    async fn cgroup_driver(&self) -> Call<Option<CgroupDriver>> {
        self.answer(Rpc::RuntimeConfig, "", &["RuntimeConfig"], |_| Ok(None), || None).await
    }

    async fn list_sandboxes(&self, filter: &Filter<SandboxState>) -> Call<Vec<Sandbox>> {
        let list = |state: &State| {
            let chosen = state.sandboxes.iter().filter(|item| matches(&item.labels, &filter.labels));
            Ok(chosen.cloned().collect())
        };
        self.answer(Rpc::ListPodSandbox, &filter_text(filter), &["ListPodSandbox"], list, || None).await
    }

    async fn list_containers(&self, filter: &Filter<ContainerState>) -> Call<Vec<Container>> {
        let list = |state: &State| {
            let chosen = state.containers.iter().filter(|item| matches(&item.labels, &filter.labels));
            Ok(chosen.cloned().collect())
        };
        self.answer(Rpc::ListContainers, &filter_text(filter), &["ListContainers"], list, || None).await
    }

    async fn sandbox_status(&self, id: &str) -> Call<SandboxStatusAnswer> {
        let good = |state: &State| {
            let sandbox = state.sandboxes.iter().find(|sandbox| sandbox.id == id).ok_or(Code::NotFound)?;
            let timestamp = state.timestamps.get(id).copied().unwrap_or(0);
            let containers =
                state.containers.iter().filter(|container| timestamp != 0 && container.sandbox_id == id);
            Ok(SandboxStatusAnswer {
                status: Some(sandbox_status_of(sandbox, state.networks.get(id).cloned())),
                containers: containers.map(|container| status_of(container, 0)).collect(),
                timestamp,
            })
        };
        self.answer(Rpc::PodSandboxStatus, id, &[id, "PodSandboxStatus"], good, || {
            Some(SandboxStatusAnswer::default())
        })
        .await
    }

    async fn container_status(&self, id: &str) -> Call<Option<ContainerStatus>> {
        let good = |state: &State| {
            let container =
                state.containers.iter().find(|container| container.id == id).ok_or(Code::NotFound)?;
            Ok(Some(status_of(container, state.exit_codes.get(id).copied().unwrap_or(0))))
        };
        self.answer(Rpc::ContainerStatus, id, &[id, "ContainerStatus"], good, || Some(None)).await
    }

    async fn container_stats(&self, id: &str) -> Call<()> {
        self.answer(Rpc::ContainerStats, id, &[id], |_| Ok(()), || None).await
    }

    async fn container_events(&self) -> Result<EventStream, Error> {
        Err(Error::Unimplemented { rpc: Rpc::GetContainerEvents, message: "scripted".into() })
    }
}

/// Returns a sandbox of pod `uid`.
pub fn sandbox(id: &str, uid: &str, attempt: u32, state: SandboxState) -> Sandbox {
    Sandbox {
        id: id.into(),
        metadata: Some(plegctl_engine::cri::SandboxMetadata {
            name: format!("name-{uid}"),
            uid: uid.into(),
            namespace: "default".into(),
            attempt,
        }),
        state,
        created_at: 1_000 + i64::from(attempt),
        labels: [(label::POD_UID, uid)].into_iter().collect(),
        annotations: plegctl_engine::cri::Labels::default(),
    }
}

/// Returns a container of pod `uid`.
pub fn container(id: &str, uid: &str, state: ContainerState) -> Container {
    Container {
        id: id.into(),
        sandbox_id: format!("{uid}-sandbox"),
        metadata: Some(plegctl_engine::cri::ContainerMetadata { name: format!("name-{id}"), attempt: 0 }),
        image: Some(Image { image: "img:1".into(), user_specified: String::new() }),
        image_ref: "sha256:0".into(),
        state,
        created_at: 2_000,
        labels: [
            (label::POD_UID, uid),
            (label::POD_NAME, &format!("name-{uid}")),
            (label::POD_NAMESPACE, "default"),
        ]
        .into_iter()
        .collect(),
        annotations: plegctl_engine::cri::Labels::default(),
    }
}
