//! A row of a PostgreSQL table that keeps its value and the highest token.
//!
//! | `fence` | a write is |
//! |---|---|
//! | `conditional` | one statement that inserts the row, or updates it where its token is not higher |
//! | `none` | the same without the condition |
//! | `select-then-update` | a SELECT of the mark, a look at it in the client, an UPDATE without a condition: no fence, because another write may come in between |
//!
//! ```sql
//! INSERT INTO keys AS k (key, value, fence) VALUES ($1, $2, $3)
//! ON CONFLICT (key) DO UPDATE SET value = excluded.value, fence = excluded.fence WHERE k.fence <= excluded.fence
//! RETURNING fence
//! ```
//!
//! At READ COMMITTED this waits for the row and tests the `WHERE` again on its newest version, so check and write are one
//! step. No row comes back only where the row is there and its mark is higher: a missing row is inserted. The mark is
//! then read by a statement of its own. That is as good as one step: marks only rise, so the write would have been
//! refused at that later moment too, which lies before the answer.
//!
//! | what happened | outcome | why |
//! |---|---|---|
//! | no row came back | fail, `stale-token`, with the mark if it could be read | the condition decided |
//! | the mark of `select-then-update` is higher, or could not be read | fail | nothing was written yet |
//! | the token does not fit a bigint | fail | nothing was sent |
//!
//! All else is in [`crate::client::postgres`].

use fencepost_checker::history::Token;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::client::postgres::{Server, bigint, schema, steward as keeper};
use crate::client::{
    Call, Endpoint, EndpointError, Failure, Outcome, Reading, Reason, Resource, Steward, Written,
};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS {schema}.keys \
     (key text PRIMARY KEY, value text NOT NULL, fence bigint NOT NULL)";

/// Makes one client.
pub(super) fn connect(endpoint: &Endpoint<'_>) -> Result<Box<dyn Resource>, EndpointError> {
    let settings = &endpoint.options.resource_settings;
    let schema = schema(endpoint)?;
    let fence = match settings.fence.as_deref() {
        None | Some("conditional") => Fence::Conditional,
        Some("none") => Fence::None,
        Some("select-then-update") => Fence::SelectThenUpdate,
        Some(other) => {
            return Err(endpoint.unusable(format!("{other:?} is no fence of PostgreSQL")));
        }
    };
    let condition = match fence {
        Fence::Conditional => "WHERE k.fence <= excluded.fence",
        Fence::None | Fence::SelectThenUpdate => "",
    };
    Ok(Box::new(PostgresResource {
        server: Server::new(endpoint, settings)?,
        fence,
        write: format!(
            "INSERT INTO {schema}.keys AS k (key, value, fence) VALUES ($1, $2, $3) \
             ON CONFLICT (key) DO UPDATE SET value = excluded.value, fence = excluded.fence {condition} \
             RETURNING fence"
        ),
        read: format!("SELECT fence, value FROM {schema}.keys WHERE key = $1"),
    }))
}

/// Makes the one who looks after the run's table.
pub(super) fn steward(endpoint: &Endpoint<'_>) -> Result<Box<dyn Steward>, EndpointError> {
    keeper(endpoint, &endpoint.options.resource_settings, TABLE)
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Fence {
    Conditional,
    None,
    SelectThenUpdate,
}

/// One client of the table.
struct PostgresResource {
    server: Server,
    fence: Fence,
    write: String,
    read: String,
}

impl PostgresResource {
    async fn write(&self, key: &str, token: Token, value: &str) -> Outcome<Written> {
        let fence = bigint(token)?;
        if self.fence == Fence::SelectThenUpdate {
            let found = self.look(key).await.map_err(not_sent)?;
            if let Some((mark, _)) = found
                && mark > token
            {
                let high_water = Some(mark);
                return Err(Failure::Fail(Reason::StaleToken { high_water }));
            }
        }
        let rows = self
            .server
            .call(async |connection| {
                let values: [(&(dyn ToSql + Sync), Type); 3] = [
                    (&key, Type::TEXT),
                    (&value, Type::TEXT),
                    (&fence, Type::INT8),
                ];
                connection.query_typed(&self.write, &values).await
            })
            .await?;
        match rows.first() {
            Some(_) if self.fence == Fence::None => Ok(Written { high_water: None }),
            Some(row) => Ok(Written {
                high_water: Some(mark(row)?),
            }),
            None => {
                let found = self.look(key).await.ok().flatten();
                let high_water = found.map(|(mark, _)| mark);
                Err(Failure::Fail(Reason::StaleToken { high_water }))
            }
        }
    }

    async fn read(&self, key: &str) -> Outcome<Reading> {
        let (token, value) = match self.look(key).await? {
            Some((token, value)) => (Some(token), Some(value)),
            None => (None, None),
        };
        Ok(Reading {
            value,
            token,
            // Without a fence the number in the row is the last writer's, and no mark.
            high_water: token.filter(|_| self.fence != Fence::None),
        })
    }

    /// Mark and value; `None` where the row was never written.
    async fn look(&self, key: &str) -> Outcome<Option<(Token, String)>> {
        let rows = self
            .server
            .call(async |connection| {
                let values: [(&(dyn ToSql + Sync), Type); 1] = [(&key, Type::TEXT)];
                connection.query_typed(&self.read, &values).await
            })
            .await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let value = row.try_get(1).map_err(|error| unexpected(&error))?;
        Ok(Some((mark(row)?, value)))
    }
}

fn mark(row: &Row) -> Outcome<Token> {
    let fence = row.try_get::<_, i64>(0);
    fence.map(Token::from).map_err(|error| unexpected(&error))
}

fn unexpected(error: &tokio_postgres::Error) -> Failure {
    Failure::Unknown(format!("unexpected answer: {error}"))
}

/// The look before the write failed, in whatever way: the write was not sent.
fn not_sent(failure: Failure) -> Failure {
    Failure::Fail(match failure {
        Failure::Fail(reason) => reason,
        Failure::Unknown(text) => Reason::Other(format!("not written: the look before it: {text}")),
    })
}

impl Resource for PostgresResource {
    fn write<'a>(&'a self, key: &'a str, token: Token, value: &'a str) -> Call<'a, Written> {
        Box::pin(self.write(key, token, value))
    }

    fn read<'a>(&'a self, key: &'a str) -> Call<'a, Reading> {
        Box::pin(self.read(key))
    }
}
