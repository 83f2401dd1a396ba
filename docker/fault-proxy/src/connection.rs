//! Two sockets and the two pipes between them.
//!
//! All reading and writing happens in [`Connection::pump`], which never waits and runs under the lock of the pipes.
//! So a change of toxics, made under the same lock, is in force for every byte that has not reached the kernel when
//! the call that made it returns. A task waits for readiness and pumps; API calls pump too, so that a healed
//! stall is written out before its call returns.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::meters::Meter;
use crate::pipe::Pipe;
use crate::stage::{End, Item};
use crate::toxic::{Stream, Toxic};

/// How much is read at a time.
const BLOCK: usize = 16 * 1024;
/// How often one pump goes round before others have their turn.
const ROUNDS: usize = 8;
/// The longest sleep; a toxic may ask for years.
const NAP: Duration = Duration::from_secs(3600);
/// How many blocks are discarded at a close, so that it is a FIN and no RST.
const DISCARDS: usize = 256;

/// What a connection's task has to wait for.
#[derive(Debug, Default, PartialEq)]
struct Waiting {
    readable: [bool; 2],
    writable: [bool; 2],
    until: Option<Instant>,
}

/// What follows a pump.
enum Next {
    Wait(Waiting),
    Again,
    Over,
}

#[derive(Debug)]
struct Flow {
    /// Upstream (client to server), then downstream.
    pipes: [Pipe; 2],
    over: bool,
}

/// One proxied connection; see the module.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The client's socket, then the server's: the source and the sink of the upstream pipe.
    ends: [TcpStream; 2],
    flow: Mutex<Flow>,
    changed: Notify,
    meter: Arc<Meter>,
}

/// What writing out a pipe came to.
#[derive(PartialEq)]
enum Written {
    All,
    Blocked,
    Over,
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Upstream => 0,
        Stream::Downstream => 1,
    }
}

impl Connection {
    /// Joins a client to its server under the given toxics.
    pub(crate) fn new(
        client: TcpStream,
        server: TcpStream,
        toxics: &[Arc<Toxic>],
        meter: Arc<Meter>,
    ) -> Connection {
        let now = Instant::now();
        let pipe = |stream| Pipe::new(toxics.iter().filter(|toxic| toxic.stream == stream), now);
        Connection {
            flow: Mutex::new(Flow {
                pipes: [pipe(Stream::Upstream), pipe(Stream::Downstream)],
                over: false,
            }),
            ends: [client, server],
            changed: Notify::new(),
            meter,
        }
    }

    /// Moves bytes until the connection is over. The sockets close when the last reference goes.
    pub(crate) async fn run(&self) {
        loop {
            match self.pump() {
                Next::Over => return,
                Next::Again => tokio::task::yield_now().await,
                Next::Wait(waiting) => self.wait(waiting).await,
            }
        }
    }

    /// Adds a toxic, at once.
    pub(crate) fn add(&self, toxic: &Arc<Toxic>) {
        self.alter(toxic.stream, |pipe, now| {
            pipe.add(toxic, now);
            None
        });
    }

    /// Changes the toxic of that name, at once.
    pub(crate) fn change(&self, toxic: &Arc<Toxic>) {
        self.alter(toxic.stream, |pipe, now| pipe.change(toxic, now));
    }

    /// Removes a toxic and delivers what it held; or closes, if it was a hole.
    pub(crate) fn remove(&self, toxic: &Toxic) {
        self.alter(toxic.stream, |pipe, now| pipe.remove(&toxic.name, now));
    }

    /// Ends the stream on both sides, whatever is held.
    pub(crate) fn close(&self) {
        self.finish(&mut self.flow(), End::Close);
    }

    fn alter(&self, stream: Stream, change: impl FnOnce(&mut Pipe, Instant) -> Option<End>) {
        let mut flow = self.flow();
        if flow.over {
            return;
        }
        if let Some(end) = change(&mut flow.pipes[index(stream)], Instant::now()) {
            self.finish(&mut flow, end);
        }
        drop(flow);
        self.pump();
        self.changed.notify_one();
    }

    fn flow(&self) -> MutexGuard<'_, Flow> {
        // A panic inside would leave a flow that is merely incomplete; its connection is the only one harmed.
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pump(&self) -> Next {
        let mut flow = self.flow();
        for _ in 0..ROUNDS {
            if flow.over {
                return Next::Over;
            }
            let read = self.take_in(&mut flow, 0) | self.take_in(&mut flow, 1);
            let now = Instant::now();
            let due = flow.pipes.each_mut().map(|pipe| pipe.advance(now));
            let blocked =
                [0, 1].map(|direction| self.write_out(&mut flow, direction) == Written::Blocked);
            if flow.over {
                return Next::Over;
            }
            if !read {
                return Next::Wait(Waiting {
                    readable: flow.pipes.each_ref().map(|pipe| pipe.room() > 0),
                    writable: blocked,
                    until: due.into_iter().flatten().min(),
                });
            }
        }
        Next::Again
    }

    /// Reads one block; says whether anything came of it.
    fn take_in(&self, flow: &mut Flow, direction: usize) -> bool {
        let pipe = &mut flow.pipes[direction];
        let room = pipe.room().min(BLOCK);
        if room == 0 {
            return false;
        }
        let mut block = [0_u8; BLOCK];
        match self.ends[direction].try_read(&mut block[..room]) {
            Ok(0) => pipe.end(End::Fin, Instant::now()),
            Ok(count) => {
                self.meter.received(direction, count);
                pipe.push(&block[..count], Instant::now());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => pipe.end(End::Close, Instant::now()),
        }
        true
    }

    /// Writes what is ready and carries out an end.
    fn write_out(&self, flow: &mut Flow, direction: usize) -> Written {
        let sink = &self.ends[1 - direction];
        loop {
            let pipe = &mut flow.pipes[direction];
            match pipe.front() {
                None => return Written::All,
                Some(Item::Bytes(bytes)) => match sink.try_write(bytes) {
                    Ok(count) => {
                        self.meter.sent(direction, count);
                        pipe.wrote(count);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Written::Blocked,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return self.lose_sink(flow, direction),
                },
                Some(Item::End(End::Fin)) => {
                    // An error says that the peer is gone already, which is what we wanted to tell it.
                    let _ = SockRef::from(sink).shutdown(Shutdown::Write);
                    pipe.wrote(0);
                    if flow.pipes.iter().all(Pipe::done) {
                        self.finish(flow, End::Close);
                        return Written::Over;
                    }
                }
                Some(&Item::End(end)) => {
                    self.finish(flow, end);
                    return Written::Over;
                }
            }
        }
    }

    /// A sink is gone. Its other half cannot speak any more either: that end travels as any other, so a hole or a
    /// stall in that direction hides it from the peer.
    fn lose_sink(&self, flow: &mut Flow, direction: usize) -> Written {
        flow.pipes[direction].break_off();
        let back = &mut flow.pipes[1 - direction];
        if back.done() {
            self.finish(flow, End::Close);
            return Written::Over;
        }
        back.end(End::Close, Instant::now());
        // The other pipe has something new to carry; look at it again without waiting.
        self.changed.notify_one();
        Written::All
    }

    fn finish(&self, flow: &mut Flow, end: End) {
        if flow.over {
            return;
        }
        flow.over = true;
        for pipe in &mut flow.pipes {
            pipe.break_off();
        }
        for socket in &self.ends {
            if end == End::Reset {
                let _ = socket.set_zero_linger();
                continue;
            }
            let _ = SockRef::from(socket).shutdown(Shutdown::Write);
            // Unread bytes would turn the close into a reset.
            let mut block = [0_u8; BLOCK];
            for _ in 0..DISCARDS {
                if !matches!(socket.try_read(&mut block), Ok(1..)) {
                    break;
                }
            }
        }
        self.changed.notify_one();
    }

    async fn wait(&self, waiting: Waiting) {
        let [client, server] = &self.ends;
        let sleep = async {
            match waiting.until {
                // An hour at most, then look again: the timer need not hold a time of years.
                Some(until) => {
                    tokio::time::sleep_until(until.min(Instant::now() + NAP).into()).await
                }
                None => std::future::pending().await,
            }
        };
        // A readiness error shows again, with its cause, at the next read or write.
        tokio::select! {
            () = self.changed.notified() => {}
            _ = client.readable(), if waiting.readable[0] => {}
            _ = server.readable(), if waiting.readable[1] => {}
            _ = server.writable(), if waiting.writable[0] => {}
            _ = client.writable(), if waiting.writable[1] => {}
            () = sleep => {}
        }
    }
}
