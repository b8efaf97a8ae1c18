"""What has been learned: releases, and everything that follows from them without touching data."""
