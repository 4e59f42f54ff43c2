-- Begin a new database epoch if there is evidence of a restore, a promotion or a copy. An assignment
-- that a container has but the database does not know may be such evidence.
SELECT botpool_follow_epoch(%(unknown_assignment_id)s::bigint)
