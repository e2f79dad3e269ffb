//! For the tests of `plegctl pods`: a scripted HTTP server that acts as a manifest URL, an API server or a kubelet.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum ServerAction {
    /// Answers with a status and a body.
    Answer(u16, Vec<u8>),
    /// Redirects the client.
    Redirect(String),
    /// Sends nothing and keeps the connection open.
    Silent,
    /// Sends these lines as the beginning of a longer answer.
    Lines(Vec<String>, StreamEnd),
}

/// How a longer answer ends.
#[derive(Clone, Copy, Debug)]
pub enum StreamEnd {
    /// The last chunk is sent.
    Close,
    /// The connection breaks.
    Break,
    /// The answer does not end.
    Stay,
}

impl ServerAction {
    /// Answers with status 200.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Answer(200, body.into())
    }

    /// Rejects the request with the API server's error document.
    pub fn status(code: u16, message: &str) -> Self {
        let status = serde_json::json!({"kind": "Status", "code": code, "message": message});
        Self::Answer(code, status.to_string().into_bytes())
    }
}

/// The parts of a request that the tests check.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub path: String,
    /// The headers as received, one on each line.
    pub headers: String,
}

/// The server; its threads end with the test's process.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers each request with the script, which also gets the earlier requests.
    pub fn start(script: impl Fn(&Request, &[Request]) -> ServerAction + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (script, log) = (Arc::new(script), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let request = request(&stream);
                    let act = {
                        let mut log = log.lock().unwrap();
                        let act = script(&request, &log);
                        log.push(request);
                        act
                    };
                    // A client that has closed its connection gets no answer.
                    let _ = perform(&mut stream, &act);
                });
            }
        });
        Self { address, requests }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn request(stream: &TcpStream) -> Request {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    Request { path, headers: headers.join("\n") }
}

fn perform(stream: &mut TcpStream, act: &ServerAction) -> std::io::Result<()> {
    match act {
        ServerAction::Answer(code, body) => {
            write!(
                stream,
                "HTTP/1.1 {code} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            )?;
            stream.write_all(body)
        }
        ServerAction::Redirect(to) => {
            write!(
                stream,
                "HTTP/1.1 302 X\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
        }
        ServerAction::Silent => stay(stream),
        ServerAction::Lines(lines, end) => {
            write!(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for line in lines {
                write!(stream, "{:x}\r\n{line}\n\r\n", line.len() + 1)?;
            }
            match end {
                StreamEnd::Close => write!(stream, "0\r\n\r\n"),
                StreamEnd::Break => Ok(()),
                StreamEnd::Stay => stay(stream),
            }
        }
    }
}

/// Waits until the client closes the connection.
fn stay(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.flush()?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}
