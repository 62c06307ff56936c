"""Notifications: delivers what happens to events to subscriptions."""
