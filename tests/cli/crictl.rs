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
    let () = crictl.call(IMAGES, "ImageFsInfo", ()).await.unwrap();
}

#[test]
fn crictl_ps_and_inspect_get_their_answers() {
    let folder = TempDir::new();
    let socket = folder.path().join("sim.sock");
    let listen = socket.display().to_string();
    // This scenario does not change while the test runs.
    let mut serving = Invocation::new(&["sim", "serve", "dead-kubelet", "--listen", &listen]).spawn();
    assert!(serving.line().is_some());
    with_crictl(&socket, async |mut crictl| {
        begin(&mut crictl).await;

        // ps: running containers, and the image of each, without which it shows the rest of the row.
        let running = crictl.running().await;
        assert!(running.len() > 20, "{}", running.len());
        let () = crictl.call(IMAGES, "ImageStatus", ()).await.unwrap();

        // inspect with the first digits of an id.
        let request =
            wire::ContainerStatusRequest { container_id: running[0].id[..13].to_owned(), verbose: true };
        let answer: wire::ContainerStatusResponse =
            crictl.call(RUNTIME, "ContainerStatus", request).await.unwrap();
        let status = answer.status.unwrap();
        assert_eq!(status.id, running[0].id);

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
