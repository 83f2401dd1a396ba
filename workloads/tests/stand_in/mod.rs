//! A server that answers whatever the test's script says, down to half an answer, and counts what arrives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

/// A server that answers from a script. Its threads end with the test's process.
pub struct StandIn {
    pub address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request that arrived whole.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `PUT /v1/keys/a`
    pub line: String,
    /// Lower-case names and values, as `name: value`.
    pub headers: Vec<String>,
    pub body: String,
}

/// What the stand-in does about a request.
pub enum Reply {
    /// A status and a body; the connection stays open.
    Answer(u16, String),
    /// The same, once the test says so (or has gone).
    AnswerOnceTold(mpsc::Receiver<()>, u16, String),
    /// These bytes, then the connection is closed.
    Bytes(&'static str),
    /// Nothing, until the client hangs up.
    Silence,
}

impl StandIn {
    pub fn start(script: impl FnMut(&Seen) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound listener has an address")
            .to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (script, log) = (Arc::new(Mutex::new(script)), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                thread::spawn(move || {
                    let mut stream = BufReader::new(stream.expect("an accepted connection"));
                    while let Some(request) = read(&mut stream) {
                        log.lock().expect("no panic").push(request.clone());
                        let reply = script.lock().expect("no panic")(&request);
                        if !answer(&mut stream, reply) {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, seen }
    }

    /// Gives every request the same answer.
    pub fn always(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::start(move |_| Reply::Answer(status, body.clone()))
    }

    /// All that has arrived so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }
}

fn read(stream: &mut impl BufRead) -> Option<Seen> {
    let mut line = || {
        let mut line = String::new();
        stream
            .read_line(&mut line)
            .ok()
            .filter(|&length| length > 0)?;
        Some(line.trim_end().to_owned())
    };
    let request_line = line()?.trim_end_matches(" HTTP/1.1").to_owned();
    let mut headers = Vec::new();
    loop {
        let header = line()?;
        match header.split_once(": ") {
            Some((name, value)) => headers.push(format!("{}: {value}", name.to_lowercase())),
            None => break,
        }
    }
    let length = headers
        .iter()
        .find_map(|header| header.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
    stream.read_exact(&mut body).ok()?;
    Some(Seen {
        line: request_line,
        headers,
        body: String::from_utf8(body).expect("text"),
    })
}

/// Whether the connection goes on.
fn answer(stream: &mut BufReader<std::net::TcpStream>, reply: Reply) -> bool {
    let (status, body) = match reply {
        Reply::Answer(status, body) => (status, body),
        Reply::AnswerOnceTold(told, status, body) => {
            let _ = told.recv();
            (status, body)
        }
        Reply::Bytes(bytes) => {
            let _ = stream.get_mut().write_all(bytes.as_bytes());
            return false;
        }
        Reply::Silence => {
            let _ = stream.read(&mut [0]);
            return false;
        }
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\nlocation: /elsewhere\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .get_mut()
        .write_all((head + &body).as_bytes())
        .is_ok()
}
