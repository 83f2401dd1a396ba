//! A lock that is a row of a PostgreSQL table: who holds it, until when by the server's clock, and a counter that every
//! grant raises. The counter is the token.
//!
//! ```sql
//! INSERT INTO locks AS l (name, holder, fence, until) VALUES ($1, $2, 1, clock_timestamp() + $3)
//! ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, fence = l.fence + 1, until = clock_timestamp() + $3
//!     WHERE l.until <= clock_timestamp() OR l.holder = excluded.holder
//! RETURNING fence
//! ```
//!
//! One statement, so one transaction: it waits for the row, tests the `WHERE` again on the newest version, and the
//! counter is committed before anybody is told of it. A row is never deleted while the run lasts, so the counter never
//! starts over. The clock is read by `clock_timestamp()` when the row is had; `now()` would be the time at which the
//! statement began to wait.
//!
//! The holder itself is granted the lock anew, with a higher token: two incarnations never share one. Who queues asks
//! again every 25 ms; the table keeps no queue.
//!
//! | what happened | outcome | why |
//! |---|---|---|
//! | no row came back from an acquire, until the queueing time ended | fail, `held` | the row is another's, and its lease runs |
//! | no row came back from a renewal or a release | fail, `not-held` | token or holder are others, or the lease lapsed |
//!
//! All else is in [`crate::client::postgres`].

use std::time::Duration;

use fencepost_checker::history::Token;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::types::Type;

use crate::client::postgres::{Server, bigint, schema, steward as keeper};
use crate::client::{
    Call, Endpoint, EndpointError, Failure, Grant, Lock, Outcome, Reason, Steward,
};

/// How often somebody who queues asks.
const ASK_EVERY: Duration = Duration::from_millis(25);

const TABLE: &str = "CREATE TABLE IF NOT EXISTS {schema}.locks \
     (name text PRIMARY KEY, holder text NOT NULL, fence bigint NOT NULL, until timestamptz NOT NULL)";

/// Makes one client.
pub(super) fn connect(endpoint: &Endpoint<'_>) -> Result<Box<dyn Lock>, EndpointError> {
    let schema = schema(endpoint)?;
    let lease = "clock_timestamp() + $3 * interval '1 millisecond'";
    Ok(Box::new(PostgresLock {
        server: Server::new(endpoint, &endpoint.options.lock_settings)?,
        client: endpoint.client.to_owned(),
        acquire: format!(
            "INSERT INTO {schema}.locks AS l (name, holder, fence, until) VALUES ($1, $2, 1, {lease}) \
             ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, fence = l.fence + 1, until = {lease} \
             WHERE l.until <= clock_timestamp() OR l.holder = excluded.holder RETURNING fence"
        ),
        renew: format!(
            "UPDATE {schema}.locks SET until = {lease} \
             WHERE name = $1 AND holder = $2 AND fence = $4 AND until > clock_timestamp() RETURNING fence"
        ),
        release: format!(
            "UPDATE {schema}.locks SET until = '-infinity' \
             WHERE name = $1 AND holder = $2 AND fence = $3 AND until > clock_timestamp() RETURNING fence"
        ),
    }))
}

/// Makes the one who looks after the run's table.
pub(super) fn steward(endpoint: &Endpoint<'_>) -> Result<Box<dyn Steward>, EndpointError> {
    keeper(endpoint, &endpoint.options.lock_settings, TABLE)
}

/// One client of the table.
struct PostgresLock {
    server: Server,
    client: String,
    acquire: String,
    renew: String,
    release: String,
}

impl PostgresLock {
    async fn acquire(&self, lock: &str, ttl: Duration, wait: Duration) -> Outcome<Grant> {
        let until = Instant::now() + wait;
        let (client, millis) = (self.client.as_str(), millis(ttl));
        loop {
            let asked = Instant::now();
            let rows = self
                .server
                .call(async |connection| {
                    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] = [
                        (&lock, Type::TEXT),
                        (&client, Type::TEXT),
                        (&millis, Type::FLOAT8),
                    ];
                    connection.query_typed(&self.acquire, &values).await
                })
                .await?;
            if let Some(row) = rows.first() {
                return Ok(Grant {
                    token: told(row)?,
                    ttl: Some(ttl),
                });
            }
            let again = asked + ASK_EVERY;
            if again >= until {
                return Err(Failure::Fail(Reason::Held));
            }
            sleep_until(again).await;
        }
    }

    async fn renew(&self, lock: &str, token: Token, ttl: Duration) -> Outcome<Grant> {
        let (client, millis, fence) = (self.client.as_str(), millis(ttl), bigint(token)?);
        let rows = self
            .server
            .call(async |connection| {
                let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
                    (&lock, Type::TEXT),
                    (&client, Type::TEXT),
                    (&millis, Type::FLOAT8),
                    (&fence, Type::INT8),
                ];
                connection.query_typed(&self.renew, &values).await
            })
            .await?;
        match rows.first() {
            Some(row) => Ok(Grant {
                token: told(row)?,
                ttl: Some(ttl),
            }),
            None => Err(Failure::Fail(Reason::NotHeld)),
        }
    }

    async fn release(&self, lock: &str, token: Token) -> Outcome<()> {
        let (client, fence) = (self.client.as_str(), bigint(token)?);
        let rows = self
            .server
            .call(async |connection| {
                let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] = [
                    (&lock, Type::TEXT),
                    (&client, Type::TEXT),
                    (&fence, Type::INT8),
                ];
                connection.query_typed(&self.release, &values).await
            })
            .await?;
        match rows.first() {
            Some(_) => Ok(()),
            None => Err(Failure::Fail(Reason::NotHeld)),
        }
    }
}

/// The counter that came back. One that cannot be read says nothing about what was done.
fn told(row: &tokio_postgres::Row) -> Outcome<Token> {
    match row.try_get::<_, i64>(0) {
        Ok(fence) => Ok(Token::from(fence)),
        Err(error) => Err(Failure::Unknown(format!("unexpected answer: {error}"))),
    }
}

/// For `interval '1 millisecond'`. What is too long for one is for the server to refuse.
fn millis(length: Duration) -> f64 {
    length.as_secs_f64() * 1000.0
}

impl Lock for PostgresLock {
    fn acquire<'a>(&'a self, lock: &'a str, ttl: Duration, wait: Duration) -> Call<'a, Grant> {
        Box::pin(self.acquire(lock, ttl, wait))
    }

    fn renew<'a>(&'a self, lock: &'a str, token: Token, ttl: Duration) -> Call<'a, Grant> {
        Box::pin(self.renew(lock, token, ttl))
    }

    fn release<'a>(&'a self, lock: &'a str, token: Token) -> Call<'a, ()> {
        Box::pin(self.release(lock, token))
    }
}
