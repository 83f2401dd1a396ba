//! The toxics of one proxy and all its connections, kept in step.
//!
//! One lock covers both, so a connection that opens while a toxic is set has either been there for the change or
//! sees it from its first byte; none escapes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::meters::Meter;
use crate::toxic::{Stream, Toxic};

#[derive(Debug, Default)]
struct Members {
    toxics: Vec<Arc<Toxic>>,
    connections: HashMap<u64, Arc<Connection>>,
    next: u64,
    open: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Line(Mutex<Members>);

impl Line {
    fn members(&self) -> MutexGuard<'_, Members> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on connections may join.
    pub(crate) fn open(&self) {
        self.members().open = true;
    }

    /// Ends all connections on both sides; none may join until the line is opened again. The toxics stay.
    pub(crate) fn close(&self) {
        let mut members = self.members();
        members.open = false;
        for (_, connection) in members.connections.drain() {
            connection.close();
        }
    }

    /// Joins a client and its server, unless the line was closed meanwhile.
    pub(crate) fn join(
        &self,
        client: TcpStream,
        server: TcpStream,
        meter: Arc<Meter>,
    ) -> Option<(u64, Arc<Connection>)> {
        let mut members = self.members();
        if !members.open {
            return None;
        }
        let number = members.next;
        members.next += 1;
        let connection = Arc::new(Connection::new(client, server, &members.toxics, meter));
        members.connections.insert(number, Arc::clone(&connection));
        Some((number, connection))
    }

    /// Forgets a connection that is over.
    pub(crate) fn forget(&self, number: u64) {
        self.members().connections.remove(&number);
    }

    /// All toxics, upstream before downstream, in the order in which they work.
    pub(crate) fn toxics(&self) -> Vec<Arc<Toxic>> {
        let members = self.members();
        let (mut upstream, downstream): (Vec<_>, Vec<_>) = members
            .toxics
            .iter()
            .cloned()
            .partition(|toxic| toxic.stream == Stream::Upstream);
        upstream.extend(downstream);
        upstream
    }

    /// The toxic of that name.
    pub(crate) fn toxic(&self, name: &str) -> Result<Arc<Toxic>, Failure> {
        let members = self.members();
        let found = members.toxics.iter().find(|toxic| toxic.name == name);
        found.cloned().ok_or(Failure::ToxicNotFound)
    }

    /// Adds a toxic to the line and to every live connection.
    pub(crate) fn add(&self, toxic: Toxic) -> Result<Arc<Toxic>, Failure> {
        let mut members = self.members();
        if members.toxics.iter().any(|other| other.name == toxic.name) {
            return Err(Failure::ToxicAlreadyExists);
        }
        let toxic = Arc::new(toxic);
        members.toxics.push(Arc::clone(&toxic));
        for connection in members.connections.values() {
            connection.add(&toxic);
        }
        Ok(toxic)
    }

    /// Changes a toxic as the request's body says.
    pub(crate) fn change(&self, name: &str, body: &[u8]) -> Result<Arc<Toxic>, Failure> {
        let mut members = self.members();
        let members = &mut *members;
        let place = members.toxics.iter_mut().find(|toxic| toxic.name == name);
        let place = place.ok_or(Failure::ToxicNotFound)?;
        let toxic = Arc::new(place.changed(body)?);
        *place = Arc::clone(&toxic);
        for connection in members.connections.values() {
            connection.change(&toxic);
        }
        Ok(toxic)
    }

    /// Removes a toxic. What it held is delivered; connections under a hole are ended.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Failure> {
        let mut members = self.members();
        let position = members.toxics.iter().position(|toxic| toxic.name == name);
        let toxic = members
            .toxics
            .remove(position.ok_or(Failure::ToxicNotFound)?);
        for connection in members.connections.values() {
            connection.remove(&toxic);
        }
        Ok(())
    }

    /// Removes all toxics.
    pub(crate) fn clear(&self) {
        let mut members = self.members();
        for toxic in std::mem::take(&mut members.toxics) {
            for connection in members.connections.values() {
                connection.remove(&toxic);
            }
        }
    }
}
