//! Fuzzes the bytes that a server sends on an HTTP/2 connection: frames, header blocks and trailers.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use plegctl_engine::clock::SystemClock;
use plegctl_engine::cri::{Client, Runtime};

use super::fuzz;

/// A frame: length, type, flags, stream, content.
fn frame(kind: u8, flags: u8, stream: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[0, length[0], length[1], kind, flags, 0, 0, 0, stream], content].concat()
}

/// A literal header: name and value.
fn header(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    const DATA: u8 = 0;
    let hello = [frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0x40, 0]), frame(SETTINGS, 1, 0, &[])].concat();
    // 0x88 is `:status: 200`.
    let head = [&[0x88], &header("content-type", "application/grpc")[..]].concat();
    let version = [0, 0, 0, 0, 14, 0x0a, 5, b'0', b'.', b'1', b'.', b'0', 0x12, 3, b'c', b't', b'd', 0x22, 0];
    let answer = |trailers: &[u8]| {
        [
            hello.clone(),
            frame(HEADERS, 4, 1, &head),
            frame(DATA, 0, 1, &version),
            frame(HEADERS, 5, 1, trailers),
        ]
        .concat()
    };
    let status = header("grpc-status", "0");
    let details = [status.clone(), header("grpc-status-details-bin", "CAU")].concat();
    let message = [header("grpc-status", "5"), header("grpc-message", "no%20such")].concat();
    vec![
        answer(&status),
        answer(&details),
        answer(&[status.clone(), header("grpc-status-details-bin", "!")].concat()),
        answer(&message),
        [hello.clone(), frame(HEADERS, 5, 1, &[&head[..], &message].concat())].concat(),
        // A header block in two frames, a ping, a window update, a reset, and a GOAWAY.
        [hello.clone(), frame(HEADERS, 0, 1, &head[..9]), frame(9, 4, 1, &head[9..])].concat(),
        [
            hello.clone(),
            frame(6, 0, 0, &[7; 8]),
            frame(8, 0, 0, &[0, 1, 0, 0]),
            frame(3, 0, 1, &[0, 0, 0, 8]),
        ]
        .concat(),
        [hello, frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 11])].concat(),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
    ]
}

#[test]
fn http2() {
    let event_loop = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // One thread is the server for all inputs: it waits for the request, sends its bytes, and closes the connection.
    let (bytes_to, bytes) = std::sync::mpsc::channel::<(UnixStream, Vec<u8>)>();
    thread::spawn(move || {
        for (mut line, bytes) in bytes {
            let _ = line.set_read_timeout(Some(Duration::from_secs(1)));
            let _ = line.read(&mut [0; 4096]);
            let _ = line.write_all(&bytes);
            let _ = line.shutdown(Shutdown::Write);
        }
    });
    fuzz("http2", seeds(), |input| {
        event_loop.block_on(async {
            let (ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            bytes_to.send((theirs, input.to_vec())).unwrap();
            let first = std::sync::Mutex::new(Some(ours));
            let connect = move || {
                let next = first.lock().unwrap().take();
                let refused = plegctl_engine::cri::Error::Refused { endpoint: "fuzz:http2".into() };
                let connection =
                    next.ok_or(refused).map(|line| tokio::net::UnixStream::from_std(line).unwrap());
                std::future::ready(connection)
            };
            let clock = Arc::new(SystemClock::start());
            let client = Client::over(connect, "fuzz:http2", Duration::from_secs(60), clock);
            if let Err(why) = client.version().await.result {
                assert!(!why.to_string().contains("plegctl itself failed"), "{why}");
            }
        });
    });
}
