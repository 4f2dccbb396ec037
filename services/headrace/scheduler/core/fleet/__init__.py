"""Workers as the scheduler knows them, and the choice of one for a ticket."""
