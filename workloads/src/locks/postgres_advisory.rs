//! PostgreSQL's advisory lock: of a connection, without a lease and without a token.
//!
//! Each hold has a connection of its own, and lasts as long as the server thinks that the connection does. When it ends,
//! the server gives the lock to the next in the queue at once, and tells nobody. A holder that is stopped keeps the
//! lock: its connection stands. One that is cut off may lose it without knowing.
//!
//! The token is drawn from a sequence once the lock is had, in a transaction of its own that is committed before the
//! number is used. `pg_current_xact_id()` gives that transaction a number, without which its commit would not wait for
//! the disk: a crash could then forget the draw and the next one repeat it.
//!
//! | operation | statements | ok means |
//! |---|---|---|
//! | acquire | `pg_advisory_lock`, with `lock_timeout` for the queueing time; `nextval` | the lock is ours, and the number |
//! | renew | a look into `pg_locks` over the hold's connection | connection and lock are still there. Nothing is prolonged |
//! | release | `pg_advisory_unlock` | it was ours and is free |
//!
//! A grant tells a lease of 0: the server promises no time at all.
//!
//! | what happened | outcome | why |
//! |---|---|---|
//! | 55P03 (lock_timeout) | fail, `held` | the queue did not come to us in time |
//! | the connection of the hold is known to have ended, at a renewal or release | fail, `not-held` | the lock went with it, or does as soon as the server sees it; nothing was sent |
//! | no lock in `pg_locks`, or `pg_advisory_unlock` says false | fail, `not-held` | the server said so |
//!
//! Whatever else fails, the hold's connection is dropped, and with it the hold. All else is in
//! [`crate::client::postgres`].

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_checker::history::Token;
use tokio_postgres::types::{ToSql, Type};

use crate::client::postgres::{Connection, Server, schema, steward as keeper};
use crate::client::{
    Call, Endpoint, EndpointError, Failure, Grant, Lock, Outcome, Reason, Steward,
};

const SEQUENCE: &str = "CREATE SEQUENCE IF NOT EXISTS {schema}.tokens";

/// The number of a lock: all the server knows of it. `$1` is the namespace and the name.
const NUMBER: &str = "hashtextextended($1, 0)";

/// Makes one client.
pub(super) fn connect(endpoint: &Endpoint<'_>) -> Result<Box<dyn Lock>, EndpointError> {
    let schema = schema(endpoint)?;
    Ok(Box::new(AdvisoryLock {
        server: Server::new(endpoint, &endpoint.options.lock_settings)?,
        draw: format!("SELECT nextval('{schema}.tokens'), pg_current_xact_id()::text"),
        place: endpoint.plain_namespace()?.to_owned(),
        holds: Mutex::default(),
    }))
}

/// Makes the one who looks after the run's sequence.
pub(super) fn steward(endpoint: &Endpoint<'_>) -> Result<Box<dyn Steward>, EndpointError> {
    keeper(endpoint, &endpoint.options.lock_settings, SEQUENCE)
}

/// One client of advisory locks.
struct AdvisoryLock {
    server: Server,
    draw: String,
    /// Before each lock's name, so that runs in one database do not meet.
    place: String,
    /// By lock: the hold's token and its connection. A client has one hold of a lock at a time.
    holds: Mutex<BTreeMap<String, (Token, Connection)>>,
}

impl AdvisoryLock {
    async fn acquire(&self, lock: &str, wait: Duration) -> Outcome<Grant> {
        // A hold that its client gave up without a release ends here, with its connection.
        self.holds().remove(lock);
        let connection = self.server.connection().await?;
        let name = self.name(lock);
        // 0 would switch it off.
        let limit = wait.as_millis().clamp(1, i32::MAX as u128).to_string();
        let patience = self.server.timeout().saturating_add(wait);
        connection
            .run(patience, async |client| {
                let limit: [(&(dyn ToSql + Sync), Type); 1] = [(&limit, Type::TEXT)];
                let set = "SELECT set_config('lock_timeout', $1, false)";
                client.query_typed(set, &limit).await?;
                let name: [(&(dyn ToSql + Sync), Type); 1] = [(&name, Type::TEXT)];
                let queue = format!("SELECT pg_advisory_lock({NUMBER})");
                client.query_typed(&queue, &name).await
            })
            .await
            .map_err(|failure| match failure {
                Failure::Fail(Reason::Other(text)) if text.contains("55P03") => {
                    Failure::Fail(Reason::Held)
                }
                other => other,
            })?;
        let drawn = connection
            .run(self.server.timeout(), async |client| {
                let row = client.query_typed(&self.draw, &[]).await?;
                row.first().map(|row| row.try_get::<_, i64>(0)).transpose()
            })
            .await?;
        let token = Token::from(drawn.ok_or_else(|| {
            Failure::Unknown("unexpected answer: no number was drawn".to_owned())
        })?);
        self.holds().insert(lock.to_owned(), (token, connection));
        Ok(Grant {
            token,
            ttl: Some(Duration::ZERO),
        })
    }

    async fn renew(&self, lock: &str, token: Token) -> Outcome<Grant> {
        let held = format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted \
             AND objsubid = 1 AND (classid::bigint << 32) | objid::bigint = {NUMBER}"
        );
        let told = self.ask(lock, token, &held).await?;
        match told.try_get::<_, i64>(0) {
            Ok(1..) => Ok(Grant {
                token,
                ttl: Some(Duration::ZERO),
            }),
            Ok(_) => {
                self.forget(lock, token);
                Err(Failure::Fail(Reason::NotHeld))
            }
            Err(error) => Err(Failure::Unknown(format!("unexpected answer: {error}"))),
        }
    }

    async fn release(&self, lock: &str, token: Token) -> Outcome<()> {
        let unlock = format!("SELECT pg_advisory_unlock({NUMBER})");
        let told = self.ask(lock, token, &unlock).await?;
        let connection = self.forget(lock, token);
        match told.try_get::<_, bool>(0) {
            Ok(true) => {
                if let Some(connection) = connection {
                    self.server.keep(connection);
                }
                Ok(())
            }
            Ok(false) => Err(Failure::Fail(Reason::NotHeld)),
            Err(error) => Err(Failure::Unknown(format!("unexpected answer: {error}"))),
        }
    }

    /// Asks over the hold's own connection; one that fails is dropped.
    async fn ask(&self, lock: &str, token: Token, question: &str) -> Outcome<tokio_postgres::Row> {
        let held = self.holds().get(lock).cloned();
        let connection = match held {
            Some((held, connection)) if held == token && !connection.has_ended() => connection,
            _ => {
                self.forget(lock, token);
                return Err(Failure::Fail(Reason::NotHeld));
            }
        };
        let name = self.name(lock);
        let rows = connection
            .run(self.server.timeout(), async |client| {
                let name: [(&(dyn ToSql + Sync), Type); 1] = [(&name, Type::TEXT)];
                client.query_typed(question, &name).await
            })
            .await
            .inspect_err(|_| drop(self.forget(lock, token)))?;
        let row = rows.into_iter().next();
        row.ok_or_else(|| Failure::Unknown("unexpected answer: no row".to_owned()))
    }

    fn name(&self, lock: &str) -> String {
        format!("{}/{lock}", self.place)
    }

    fn forget(&self, lock: &str, token: Token) -> Option<Connection> {
        let mut holds = self.holds();
        match holds.get(lock) {
            Some((held, _)) if *held == token => {
                holds.remove(lock).map(|(_, connection)| connection)
            }
            _ => None,
        }
    }

    fn holds(&self) -> MutexGuard<'_, BTreeMap<String, (Token, Connection)>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lock for AdvisoryLock {
    /// There is no lease to ask for.
    fn acquire<'a>(&'a self, lock: &'a str, _ttl: Duration, wait: Duration) -> Call<'a, Grant> {
        Box::pin(self.acquire(lock, wait))
    }

    fn renew<'a>(&'a self, lock: &'a str, token: Token, _ttl: Duration) -> Call<'a, Grant> {
        Box::pin(self.renew(lock, token))
    }

    fn release<'a>(&'a self, lock: &'a str, token: Token) -> Call<'a, ()> {
        Box::pin(self.release(lock, token))
    }
}
