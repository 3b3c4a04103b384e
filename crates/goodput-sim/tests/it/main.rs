//! The engine against queueing theory, published figures and itself, in virtual time.

#[cfg(test)]
mod digest;
#[cfg(test)]
mod exact;
#[cfg(test)]
mod load;
#[cfg(test)]
mod mean_field;
#[cfg(test)]
mod profiles;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod theory;
