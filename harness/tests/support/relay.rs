//! An engine that is reached over a network: a relay to the socket of the real one.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

/// Where it is reached, as DOCKER_HOST says it. It ends with this process.
pub fn relay() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = format!("tcp://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = UnixStream::connect("/var/run/docker.sock") else {
                continue;
            };
            let (from, to) = (
                client.try_clone().expect("a socket"),
                server.try_clone().expect("a socket"),
            );
            std::thread::spawn(move || pump(from, to, |to| to.shutdown(Shutdown::Write)));
            std::thread::spawn(move || {
                pump(server, client, |to: &TcpStream| {
                    to.shutdown(Shutdown::Write)
                })
            });
        }
    });
    host
}

fn pump<R: std::io::Read, W: std::io::Write>(
    mut from: R,
    mut to: W,
    end: impl Fn(&W) -> std::io::Result<()>,
) {
    // Either side may hang up at any moment.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = end(&to);
}
