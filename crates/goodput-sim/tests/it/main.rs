//! The engine against queueing theory, published figures and itself, in virtual time.

mod digest;
mod exact;
mod load;
mod profiles;
mod reference;
mod theory;
