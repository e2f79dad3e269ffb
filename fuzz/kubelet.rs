//! Fuzzes a kubelet's metrics, its configuration file, crictl's settings, and the bytes that a kubelet sends on a
//! connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use plegctl_engine::kubelet::{Credentials, KubeletApi, Metrics, scalars};

use super::fuzz;

#[test]
fn kubelet_metrics() {
    fuzz("kubelet_metrics", Vec::new(), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = Metrics::parse(&text);
    });
}

#[test]
fn kubelet_config() {
    fuzz("kubelet_config", Vec::new(), |bytes| {
        if let Ok(found) = scalars(bytes) {
            // Each setting needs at least one byte of the input.
            assert!(found.len() <= bytes.len());
        }
    });
}

/// The deadline of a request. No input needs it, because the server closes each connection.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn answers() -> Vec<Vec<u8>> {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Expires\r\n\r\n";
    [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nabc".to_owned(),
        format!("{chunked}3;name=value\r\nabc\r\nA\r\n0123456789\r\n0\r\nExpires: 0\r\nX: y\r\n\r\n"),
        "HTTP/1.1 100 Continue\r\n\r\n".repeat(40) + "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n".to_owned(),
        "HTTP/1.0 200 OK\r\n\r\nto the end".to_owned(),
        "HTTP/1.1 301 Moved\r\nLocation: //else\x1b[2J\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 15\r\n\r\n{\"message\":\"a\"}".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
            .to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

#[test]
fn kubelet_answers() {
    let event_loop = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = KubeletApi::new(&format!("http://{}", listener.local_addr().unwrap()), &Credentials::default())
        .unwrap();
    // One thread is the server for all inputs: it waits for the request, sends its bytes, and closes the connection.
    let (bytes_to, bytes) = mpsc::channel::<Vec<u8>>();
    thread::spawn(move || {
        for bytes in bytes {
            let (mut line, _) = listener.accept().unwrap();
            let _ = line.set_read_timeout(Some(Duration::from_secs(1)));
            let _ = line.read(&mut [0; 4096]);
            let _ = line.write_all(&bytes);
            let _ = line.shutdown(Shutdown::Write);
        }
    });
    fuzz("kubelet_answers", answers(), |input| {
        bytes_to.send(input.to_vec()).unwrap();
        match event_loop.block_on(api.get("/configz", TIME_LIMIT)) {
            // A body never has more bytes than its encoded form.
            Ok(answer) => assert!(answer.body.len() <= input.len()),
            Err(why) => assert!(!why.is_silent() && !why.to_string().is_empty(), "{why}"),
        }
    });
}
