//! Tests of `plegctl sim serve` with the calls that crictl's commands make, in their order. The tests check the fields
//! that crictl reads. crictl 1.36 calls `ImageFsInfo` before every command that may concern images, and stops if that
//! call is refused.

use tonic::Code;

use crate::support::crictl::{Crictl, IMAGES, RUNTIME, with_crictl};
use crate::support::plegctl::Invocation;
use crate::support::socket::TempDir;
use crate::support::wire;

/// Makes the calls with which crictl's commands begin.
async fn begin(crictl: &mut Crictl) {
    let version: wire::VersionResponse =
        crictl.call(RUNTIME, "Version", wire::VersionRequest::default()).await.unwrap();
    assert_eq!((version.runtime_name.as_str(), version.runtime_api_version.as_str()), ("containerd", "v1"));
    let filesystems: wire::ImageFsInfoResponse = crictl.call(IMAGES, "ImageFsInfo", ()).await.unwrap();
    assert!(filesystems.image_filesystems[0].fs_id.as_ref().unwrap().mountpoint.starts_with('/'));
    assert!(filesystems.image_filesystems[0].used_bytes.unwrap().value > 0);
}

#[test]
fn crictl_commands_get_complete_answers() {
    let folder = TempDir::new();
    let socket = folder.path().join("sim.sock");
    let listen = socket.display().to_string();
    let logs = folder.path().join("logs").display().to_string();
    let mut serving =
        // This scenario does not change while the test runs.
        Invocation::new(&["sim", "serve", "dead-kubelet", "--listen", &listen, "--logs", &logs]).spawn();
    assert!(serving.line().is_some());
    with_crictl(&socket, async |mut crictl| {
        begin(&mut crictl).await;

        // ps: running containers with their images.
        let running = crictl.running().await;
        assert!(running.len() > 20, "{}", running.len());
        for container in &running {
            let named = &container.image.as_ref().unwrap().image;
            let image = crictl.image(named).await.unwrap();
            assert_eq!(&image.id, named);
            assert!(image.repo_tags[0].starts_with("registry.example/"), "{image:?}");
        }
        assert!(crictl.image("registry.example/nobody:v1").await.is_none());

        // images: all images, and one by name.
        let all: wire::ListImagesResponse =
            crictl.call(IMAGES, "ListImages", wire::ListImagesRequest::default()).await.unwrap();
        let image = Some(wire::ImageSpec { image: "registry.example/postgres".into(), ..Default::default() });
        let filter = Some(wire::ImageFilter { image });
        let one: wire::ListImagesResponse =
            crictl.call(IMAGES, "ListImages", wire::ListImagesRequest { filter }).await.unwrap();
        assert!(all.images.len() > 5 && all.images.iter().all(|image| image.size > 0), "{all:?}");
        assert_eq!(one.images.len(), 1, "{one:?}");
        assert_eq!(one.images[0].repo_tags, ["registry.example/postgres:v1"]);

        // inspect and logs with the first digits of an id.
        let request =
            wire::ContainerStatusRequest { container_id: running[0].id[..13].to_owned(), verbose: true };
        let answer: wire::ContainerStatusResponse =
            crictl.call(RUNTIME, "ContainerStatus", request).await.unwrap();
        let status = answer.status.unwrap();
        assert_eq!(status.id, running[0].id);
        let log = std::fs::read_to_string(&status.log_path).unwrap();
        let first: Vec<&str> = log.lines().next().unwrap().splitn(4, ' ').collect();
        assert!(first[0].ends_with('Z') && first[1..3] == ["stdout", "F"], "{log}");

        // stats and statsp.
        let stats_of_all: wire::ListContainerStatsResponse = crictl
            .call(RUNTIME, "ListContainerStats", wire::ListContainerStatsRequest::default())
            .await
            .unwrap();
        assert_eq!(stats_of_all.stats.len(), running.len());
        let used = &stats_of_all.stats[0];
        assert!(used.cpu.as_ref().unwrap().usage_core_nano_seconds.unwrap().value > 0, "{used:?}");
        assert!(used.memory.as_ref().unwrap().working_set_bytes.unwrap().value > 0, "{used:?}");
        let pods: wire::ListPodSandboxStatsResponse = crictl
            .call(RUNTIME, "ListPodSandboxStats", wire::ListPodSandboxStatsRequest::default())
            .await
            .unwrap();
        let of_pods: usize = pods.stats.iter().map(|pod| pod.linux.as_ref().unwrap().containers.len()).sum();
        assert_eq!(of_pods, running.len());
        let request = wire::PodSandboxStatsRequest {
            pod_sandbox_id: pods.stats[0].attributes.as_ref().unwrap().id.clone(),
        };
        let one: wire::PodSandboxStatsResponse =
            crictl.call(RUNTIME, "PodSandboxStats", request).await.unwrap();
        assert_eq!(one.stats.unwrap().attributes, pods.stats[0].attributes);

        // The server does not implement calls that change the node, and uses the error text of a Go server.
        let refused = crictl.call::<_, ()>(IMAGES, "RemoveImage", ()).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::Unimplemented, "unknown service runtime.v1.ImageService")
        );
        let refused = crictl.call::<_, ()>(RUNTIME, "StopContainer", ()).await.unwrap_err();
        assert_eq!(refused.message(), "unknown method StopContainer for service runtime.v1.RuntimeService");
    });
    serving.signal("TERM");
    assert_eq!(serving.wait().code, Some(0));
}

#[test]
fn stats_of_a_pod_with_a_stopped_shim_are_silent() {
    let folder = TempDir::new();
    let socket = folder.path().join("sim.sock");
    let listen = socket.display().to_string();
    let mut serving = Invocation::new(&["sim", "serve", "stopped-shim", "--listen", &listen]).spawn();
    assert!(serving.line().is_some());
    with_crictl(&socket, async |mut crictl| {
        begin(&mut crictl).await;
        let running = crictl.running().await;
        let stats_request = |pod: &str| {
            let container = running.iter().find(|container| {
                container
                    .labels
                    .iter()
                    .any(|label| label.value == pod || label.value.starts_with(&format!("{pod}-")))
            });
            let filter = Some(wire::ContainerStatsFilter {
                id: container.unwrap().id.clone(),
                ..wire::ContainerStatsFilter::default()
            });
            wire::ListContainerStatsRequest { filter }
        };
        let web: wire::ListContainerStatsResponse =
            crictl.call(RUNTIME, "ListContainerStats", stats_request("web")).await.unwrap();
        assert_eq!(web.stats.len(), 1);
        let db = crictl.call::<_, wire::ListContainerStatsResponse>(
            RUNTIME,
            "ListContainerStats",
            stats_request("db"),
        );
        // The call never answers, so a short deadline is enough.
        assert!(tokio::time::timeout(std::time::Duration::from_secs(1), db).await.is_err());
    });
    serving.signal("TERM");
    assert_eq!(serving.wait().code, Some(0));
}
