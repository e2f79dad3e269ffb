//! A scripted HTTP server: a manifest URL, an API server, a kubelet.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What it does with a request.
#[derive(Clone, Debug)]
pub enum ServerAction {
    /// Answers.
    Say(u16, Vec<u8>),
    /// Sends the asker elsewhere.
    Redirect(String),
    /// Says nothing and keeps the connection.
    Silent,
    /// Begins an answer that goes on, with these lines.
    Lines(Vec<String>, StreamEnd),
}

/// How an answer that goes on ends.
#[derive(Clone, Copy, Debug)]
pub enum StreamEnd {
    /// As it should.
    Close,
    /// The connection breaks.
    Break,
    /// Not at all.
    Stay,
}

impl ServerAction {
    /// 200.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Say(200, body.into())
    }

    /// A refusal in the API server's words.
    pub fn status(code: u16, message: &str) -> Self {
        let status = serde_json::json!({"kind": "Status", "code": code, "message": message});
        Self::Say(code, status.to_string().into_bytes())
    }
}

/// A request as far as anybody looks at it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub path: String,
    /// As they came, one a line.
    pub headers: String,
}

/// The server; its threads end with the test's process.
pub struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers each request by the script, which also gets the requests before it.
    pub fn start(script: impl Fn(&Request, &[Request]) -> ServerAction + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (script, log) = (Arc::new(script), Arc::clone(&asked));
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
                    // Whoever has hung up in the meantime is asked no questions.
                    let _ = perform(&mut stream, &act);
                });
            }
        });
        Self { address, asked }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
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
        ServerAction::Say(code, body) => {
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

/// Until the other side goes.
fn stay(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.flush()?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}
