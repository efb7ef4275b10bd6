//! Open `subscriptions/listen` requests: at most 16, each with one coalesced change bit.
//!
//! However often the tool list changes, a subscription that has not been told owes one notification. Nothing that was
//! not asked for is ever owed.

use crate::limits::SUBSCRIPTIONS;
use crate::mcp::call::Listen;
use crate::rpc::error::{INTERNAL_ERROR, RpcError};
use crate::rpc::id::Id;

/// The table.
#[derive(Debug, Default)]
pub struct Subscriptions {
    open: Vec<Subscription>,
}

#[derive(Debug)]
struct Subscription {
    listen: Listen,
    owed: bool,
}

impl Subscriptions {
    /// An empty table.
    pub fn new() -> Subscriptions {
        Subscriptions::default()
    }

    /// Keeps a subscription. The caller acknowledges it before anything else, and has checked that its id is not in
    /// flight.
    ///
    /// # Errors
    /// -32603 when the table is full.
    pub fn insert(&mut self, listen: Listen) -> Result<(), RpcError> {
        if self.open.len() >= SUBSCRIPTIONS {
            let message = format!("tidegate: busy: expected at most {SUBSCRIPTIONS} subscriptions, got one more");
            return Err(RpcError::new(INTERNAL_ERROR, message));
        }
        self.open.push(Subscription { listen, owed: false });
        Ok(())
    }

    /// Whether a subscription has this id.
    pub fn contains(&self, id: &Id) -> bool {
        self.open.iter().any(|subscription| subscription.listen.origin().id == *id)
    }

    /// The client ended it: nothing more is sent for it. `false` where the id is no subscription's.
    pub fn remove(&mut self, id: &Id) -> bool {
        let before = self.open.len();
        self.open.retain(|subscription| subscription.listen.origin().id != *id);
        self.open.len() < before
    }

    /// The tool list has changed.
    pub fn tools_changed(&mut self) {
        for subscription in &mut self.open {
            subscription.owed |= subscription.listen.tools_list_changed();
        }
    }

    /// The next subscription that is owed a notification of a changed tool list, which it now no longer is.
    pub fn take_owed(&mut self) -> Option<Id> {
        let subscription = self.open.iter_mut().find(|subscription| subscription.owed)?;
        subscription.owed = false;
        Some(subscription.listen.origin().id.clone())
    }

    /// All ids, oldest first, for the end of the session; the table is empty then.
    pub fn take_all(&mut self) -> Vec<Id> {
        self.open.drain(..).map(|subscription| subscription.listen.origin().id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::era::{Era, Origin};

    fn listen(id: &str, wants_tools: bool) -> Listen {
        let origin = Origin { id: Id::parse(id).unwrap(), era: Era::Modern };
        let params = format!(r#"{{"notifications":{{"toolsListChanged":{wants_tools}}}}}"#);
        Listen::read(origin, Some(&params)).unwrap()
    }

    fn owed(table: &mut Subscriptions) -> Vec<String> {
        std::iter::from_fn(|| table.take_owed()).map(|id| id.to_json()).collect()
    }

    #[test]
    fn changes_are_coalesced_and_go_to_those_who_asked_s111_s113() {
        let mut table = Subscriptions::new();
        for (id, wants_tools) in [("1", true), ("\"1\"", true), ("2", false)] {
            table.insert(listen(id, wants_tools)).unwrap();
        }
        assert!(owed(&mut table).is_empty());
        table.tools_changed();
        table.tools_changed();
        assert_eq!(owed(&mut table), ["1", "\"1\""]);
        assert!(owed(&mut table).is_empty());
    }

    #[test]
    fn a_cancelled_subscription_is_owed_nothing_s115_s103_r094() {
        let mut table = Subscriptions::new();
        table.insert(listen("1", true)).unwrap();
        table.tools_changed();
        assert!(!table.remove(&Id::text("1")), "ids match with their type");
        assert!(table.contains(&Id::integer(1)));
        assert!(table.remove(&Id::integer(1)));
        assert!(!table.remove(&Id::integer(1)));
        assert!(owed(&mut table).is_empty());
    }

    #[test]
    fn the_table_is_full_at_its_limit_s117() {
        let mut table = Subscriptions::new();
        for id in 0..SUBSCRIPTIONS {
            table.insert(listen(&id.to_string(), true)).unwrap();
        }
        let error = table.insert(listen("99", true)).unwrap_err();
        assert_eq!(error.code, -32603);
        assert!(error.message.contains("busy"), "{}", error.message);
        assert!(table.remove(&Id::integer(3)));
        table.insert(listen("99", true)).unwrap();
        assert_eq!(table.take_all().len(), SUBSCRIPTIONS);
        assert!(!table.contains(&Id::integer(99)));
    }
}
